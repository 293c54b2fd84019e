"""The full check: all problems that would end a start or one of its jobs, as far as they can be known before.

What a job would find after hours in a queue is found here in seconds. The checks call the functions that the jobs call,
so that both refuse the same. No check writes into the results folder.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from reward_ablation.config.batch_sizes import BatchSizes
from reward_ablation.config.grpo_settings import COMPLETION_LENGTH
from reward_ablation.start.asking import ask
from reward_ablation.start.before_jobs import (
    check_before_training,
    check_reward_files,
    check_training_settings,
    settings_have_passed,
)
from reward_ablation.start.data_files import sets_of, try_preparation
from reward_ablation.study.resolve import check_variables
from reward_ablation.study.reward_models import model_file
from reward_ablation.study.run import Run
from reward_ablation.study.run_folder import RECORD
from reward_ablation.study.study import Study
from reward_ablation.system.errors import ERROR, StudyError, storage_errors
from reward_ablation.system.gpus import gpus_here, too_few_gpus_text
from reward_ablation.system.masking import without_known_secrets

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """What a start is about to do."""

    trains: bool  # a run, or the supervised start
    scores: bool  # answers, by the study's own metrics
    fetches_model: bool  # the base model
    prepares: frozenset[str]  # sets of problems, as files below the results folder
    code_counts: bool  # whether runs of other code are trained again
    submits: bool  # whether jobs go to other machines
    site: Path | None  # the cluster's description; None if whoever submits the jobs checks them
    runs: frozenset[str] | None = None  # names of the runs to train; None: those that are not finished


def full_check(study: Study, work: Work, tell: Tell, offline: bool = False) -> list[str]:
    """All problems that would end a start or one of its jobs, each as one line `key: what is wrong; what to do`.

    `tell` gets warnings, and progress where a check takes seconds. With `offline`, the hub is not asked. Code of the
    study's own files is called last, and only if there is no other problem.
    """
    problems: list[str] = []

    def collect(check: Callable[[], Iterable[str] | None]) -> None:
        try:
            with storage_errors():
                problems.extend(check() or ())
        except StudyError as error:
            problems.append(str(error))

    def checked_settings() -> None:
        if work.trains and not settings_have_passed(study, study.root / study.config.root):
            tell("asking TRL for its rules ...")
        if work.trains:
            check_training_settings(study, study.root / study.config.root)

    runs = _runs_to_train(study, work)
    collect(lambda: check_variables(study.config, os.environ, work.trains, work.scores))
    collect(lambda: check_before_training(study, work.code_counts))
    collect(lambda: check_machines(study, work, runs))
    collect(lambda: check_room(study, runs))
    with TemporaryDirectory(prefix="reward-ablation-") as folder:
        collect(lambda: check_data_and_models(study, work, runs, Path(folder), tell, offline))
    collect(checked_settings)
    if not problems:
        collect(lambda: check_reward_files(study, work.trains, work.scores, tell))
    return list(dict.fromkeys(problems))


def refuse(problems: list[str]) -> None:
    """Print all problems but the last, which is raised as a StudyError."""
    for problem in problems[:-1]:
        print(f"{ERROR}{without_known_secrets(problem)}", file=sys.stderr)
    if problems:
        raise StudyError(problems[-1])


def _runs_to_train(study: Study, work: Work) -> list[Run]:
    """The runs that a start is about to train."""
    if not work.trains:
        return []
    if work.runs is not None:
        return [run for name, run in study.runs.items() if name in work.runs]
    folder = study.root / study.config.root / "runs"
    return [study.runs[name] for name in study.sound_runs if not os.path.exists(folder / name / RECORD)]


def check_machines(study: Study, work: Work, runs: list[Run]) -> None:
    """Refuse more GPUs than this machine has, or jobs that the cluster of the site file would never run."""
    if work.submits:
        if work.site is not None:
            _check_cluster(study, work.site, runs)
        return
    largest = max((run.launch for run in runs), key=lambda launch: launch.all_gpus, default=None)
    available = len(gpus_here()) if largest and largest.all_gpus else 0
    if largest and largest.all_gpus > available:
        of_server = largest.vllm.server_gpus if largest.vllm else 0
        raise StudyError(f"launch.gpus: {too_few_gpus_text(largest.all_gpus, available, of_server)}")
    if study.config.evaluation.backend == "vllm" and (not study.config.launch.gpus or not find_spec("vllm")):
        raise StudyError("evaluation.backend: vllm needs the package vllm and a GPU; use auto or transformers")


def _check_cluster(study: Study, site_file: Path, runs: list[Run]) -> None:
    """Let Slurm judge one job for each kind of run, and one evaluation. No other job of a bundle is judged."""
    from reward_ablation.cluster.command import SlurmError
    from reward_ablation.cluster.preflight import check_jobs
    from reward_ablation.cluster.site import read_site
    from reward_ablation.cluster.slurm import partitions

    def job(rule: str, threads: int, resources: dict[str, Any]) -> Any:
        return SimpleNamespace(rule=SimpleNamespace(name=rule), resources=resources, threads=threads, attempt=1)

    site = read_site(site_file)
    first = {run.arm: run for run in reversed(runs)}.values()
    jobs = [
        job("train", study.threads_of_run(SimpleNamespace(run=run.name)), study.resources.of_one_run(run))
        for run in first
    ]
    jobs.append(job("evaluate", study.config.launch.threads, study.resources.of_evaluation))
    try:
        check_jobs([[each] for each in jobs], site, site_file, partitions())
    except SlurmError as error:
        raise StudyError(f"{site_file}: {error}; start this on a machine where `sinfo` answers") from None


def check_room(study: Study, runs: list[Run]) -> list[str]:
    """A line if the disk has too little room for the models and checkpoints of the runs, trained one by one."""
    from reward_ablation.cluster.preflight import no_room

    results = study.root / study.config.root
    model = (results / study.model_file).parent
    if not model.is_dir() and study.config.model.source == "local":
        model = study.root / study.config.model.path
    line = no_room(model, results, {run.name: run.arm_spec for run in runs}, at_once=1) if runs else None
    return [f"results: {line}"] if line else []


def check_data_and_models(
    study: Study, work: Work, runs: list[Run], folder: Path, tell: Tell, offline: bool
) -> list[str]:
    """Lines on data that cannot be prepared, on models that cannot be fetched, and on prompts that are too long.

    Sets are prepared for trial in the temporary folder `folder`.
    """
    tried = try_preparation(study, work.prepares, folder, tell)
    problems = [*tried.problems]
    if train := tried.files.get("data.train"):
        problems += _too_few_problems(runs, train)
    questions = [*_hub_questions(study, work), *_prompt_questions(study, work, runs, tried.files)]
    of_hub = [each for each in questions if each["kind"] in ("model", "data")]
    if of_hub and offline:
        names = ", ".join(dict.fromkeys(each["key"] for each in of_hub))
        tell(f"{names}: not checked whether the hub can be reached: offline")
        questions = [each for each in questions if each not in of_hub]
    elif of_hub:
        tell(f"asking the hub for {', '.join(dict.fromkeys(each['key'] for each in of_hub))} ...")
    if any("problems" in each for each in questions):
        tell("reading the lengths of prompts ...")
    if questions:
        answers = ask("reward_ablation.start.ask_models", map(json.dumps, questions), study.root)
        told = [(each, answer["error"]) for each, answer in zip(questions, answers, strict=True) if answer["error"]]
        of_models = any(each["kind"] in ("model", "folder") for each, _ in told)
        problems += [error for each, error in told if not (of_models and "problems" in each)]
    return problems


def _too_few_problems(runs: list[Run], train: Path) -> list[str]:
    """A line if a run generates completions of more problems at once than the training set has, as the run says it."""
    import pyarrow.parquet as pq

    count = pq.read_metadata(train).num_rows
    for run in runs:
        training = run.arm_spec.training
        completions = BatchSizes.of(training, run.launch.process_count).completions
        prompts = completions // (training.get("num_generations") or 8)
        if count < prompts:
            return [
                f"training: a generation takes {prompts} problems at once, and data.train has {count}; add problems, "
                "or lower per_device_train_batch_size or steps_per_generation"
            ]
    return []


def _hub_questions(study: Study, work: Work) -> list[dict[str, Any]]:
    """Questions for `ask_models` on what is fetched: the base model, reward models, and data sets of the hub."""
    sources = [("model", study.config.model.model_dump())] if work.fetches_model else []
    if work.trains or work.scores:
        results = study.root / study.config.root
        missing = [key for key in study.reward_models if not (results / model_file(key)).exists()]
        sources += [("reward model", json.loads(study.reward_models[key])) for key in missing]
    questions: list[dict[str, Any]] = []
    for key, source in sources:
        if source["source"] == "hub":
            questions.append({"kind": "model", "key": key, "id": source["id"], "revision": source["revision"]})
        elif source["source"] == "local":
            questions.append({"kind": "folder", "key": key, "path": source["path"]})
    for each in sets_of(study):
        if each.file in work.prepares and each.is_on_hub:
            source = each.source
            asked = {"source": source["source"], "revision": source["revision"]}
            questions.append({"kind": "data", "key": each.key, **asked})
    return questions


def _prompt_questions(study: Study, work: Work, runs: list[Run], files: dict[str, Path]) -> list[dict[str, Any]]:
    """Questions for `ask_models` on the prompts of sets that are there, if the model's tokenizer is there too."""
    fetched = Path(study.config.root) / study.fetched_file
    if (study.root / fetched).is_file() and not work.fetches_model:
        model = fetched.parent
    elif study.config.model.source == "local":
        model = Path(study.config.model.path)
    else:
        return []
    questions = []
    if runs and "data.train" in files:
        longest = max(runs, key=lambda run: run.arm_spec.training.get("max_completion_length", COMPLETION_LENGTH))
        questions.append({"kind": "training", "spec": longest.spec, "problems": str(files["data.train"])})
    if runs or work.prepares:
        for name in study.config.data.evaluation:
            if problems := files.get(f"data.evaluation.{name}"):
                spec = study.evaluation_spec(None)
                questions.append({"kind": "evaluation", "spec": spec, "problems": str(problems), "name": name})
    return [{**each, "model": str(model)} for each in questions]
