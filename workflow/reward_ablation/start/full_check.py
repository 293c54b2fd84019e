"""The full check: all problems that would end a start or one of its jobs, as far as they can be known before.

What a job would find after hours in a queue is found here in seconds. The checks call the functions that the jobs call,
so that both refuse the same. No check writes into the results folder.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from reward_ablation.config.trl_settings import BatchSizes
from reward_ablation.start.before_jobs import check_before_training, check_reward_files, check_training_settings
from reward_ablation.start.data_files import MEMORY, SECONDS, named, sets_of, try_preparation
from reward_ablation.study.job_options import resources_of, threads_of
from reward_ablation.study.resolve import check_variables
from reward_ablation.study.reward_models import model_file
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import ERROR, StudyError, storage_errors
from reward_ablation.system.gpus import gpus_here, too_few_gpus_text
from reward_ablation.system.limits import within_limits
from reward_ablation.system.masking import without_known_secrets

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """What a start is about to do."""

    runs: frozenset[str]  # names of the runs to train
    trains: bool  # a run, or the supervised start
    scores: bool  # answers, by the study's own metrics
    makes: frozenset[str]  # models and sets of problems, as files below the results folder
    code_counts: bool  # whether runs of other code are trained again
    submits: bool  # whether jobs go to other machines
    site: Path | None  # the cluster's description; None if whoever submits the jobs checks them


def full_check(study: Study, work: Work, tell: Tell, offline: bool = False) -> list[str]:
    """All problems that would end a start or one of its jobs, each as one line `key: what is wrong; what to do`.

    `tell` gets warnings, and progress where a check takes seconds. With `offline`, the hub is not asked. Code of the
    study's own files is called last, and only if there is no other problem.
    """
    problems: list[str] = []

    def collect(check: Callable[..., list[str] | None], *arguments: Any) -> None:
        try:
            with storage_errors():
                problems.extend(check(*arguments) or ())
        except StudyError as error:
            problems.append(str(error))

    runs = [run for name, run in study.runs.items() if name in work.runs]
    collect(check_variables, study.config, os.environ, work.trains, work.scores)
    collect(check_before_training, study, work.code_counts)
    collect(_check_machines, study, work, runs)
    collect(_check_room, study, runs)
    with TemporaryDirectory(prefix="reward-ablation-") as folder:
        refused, files = try_preparation(study, work.makes, Path(folder), tell)
        problems += refused
        collect(_check_number_of_problems, runs, files)
        before = len(problems)
        for check in _checks_of_fetching(study, work, tell, offline):
            collect(check)
        if len(problems) == before:
            collect(_check_prompts, study, work, runs, files, tell)
    if work.trains:
        collect(check_training_settings, study, study.results, tell)
    if not problems:
        collect(check_reward_files, study, work.trains, work.scores, tell)
    return list(dict.fromkeys(problems))


def refuse(problems: list[str]) -> None:
    """Print all problems but the last, which is raised as a StudyError."""
    for problem in problems[:-1]:
        print(f"{ERROR}{without_known_secrets(problem)}", file=sys.stderr)
    if problems:
        raise StudyError(problems[-1])


def _check_machines(study: Study, work: Work, runs: list[Run]) -> None:
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
    """Let Slurm judge one job for each arm, and an evaluation. Slurm jobs of several parts are left to the start."""
    from reward_ablation.cluster.command import SlurmError
    from reward_ablation.cluster.preflight import check_jobs
    from reward_ablation.cluster.site import read_site
    from reward_ablation.cluster.slurm import partitions

    launches = {run.arm: run.launch for run in runs}.values()
    asked = [("train", threads_of(launch), resources_of(launch)) for launch in launches]
    asked.append(("evaluate", study.config.launch.threads, {"gpu": min(1, study.config.launch.gpus)}))
    jobs = [
        SimpleNamespace(rule=SimpleNamespace(name=rule), threads=threads, resources=resources, attempt=1)
        for rule, threads, resources in asked
    ]
    try:
        check_jobs([[job] for job in jobs], read_site(site_file), site_file, partitions())
    except SlurmError as error:
        raise StudyError(f"{site_file}: {error}; start this on a machine where `sinfo` answers") from None


def _check_room(study: Study, runs: list[Run]) -> None:
    """Refuse a disk that has too little room for the models and checkpoints of the runs, trained one by one."""
    from reward_ablation.cluster.preflight import no_room

    results = study.results
    model = (results / study.model_file).parent
    if not model.is_dir():
        model = study.root / getattr(study.config.model, "path", "no model yet")
    if runs and (line := no_room(model, results, {run.name: run.arm_spec for run in runs}, at_once=1)):
        raise StudyError(f"results: {line}")


def _check_number_of_problems(runs: list[Run], files: dict[str, Path]) -> None:
    """Refuse a training set with fewer problems than a run generates completions of at once, as the run does."""
    import pyarrow.parquet as pq

    count = pq.read_metadata(files["data.train"]).num_rows if runs and "data.train" in files else math.inf
    for run in runs:
        training = run.arm_spec.training
        completions = BatchSizes.of(training, run.launch.process_count).completions
        if count < (prompts := completions // (training.get("num_generations") or 8)):
            raise StudyError(
                f"training: a generation takes {prompts} problems at once, and data.train has {count}; add problems, "
                "or lower per_device_train_batch_size or steps_per_generation"
            )


def _checks_of_fetching(study: Study, work: Work, tell: Tell, offline: bool) -> Iterator[Callable[[], None]]:
    """A check for each model and data set that is to be fetched: the hub gives it, or the folder has its files."""
    results = study.results
    sources = {"model": study.config.model.model_dump()} if study.fetched_file in work.makes else {}
    if work.trains or work.scores:
        missing = [key for key in study.reward_models if not (results / model_file(key)).exists()]
        sources |= {f"reward model {key}": json.loads(study.reward_models[key]) for key in missing}
    sources |= {each.key: each.source for each in sets_of(study) if each.file in work.makes}
    for key, source in sources.items():
        if source["source"] == "local":
            yield partial(_in_a_fork, key, "check_folder", Path(source["path"]))
        elif source.get("revision") and offline:
            tell(f"{key}: not checked whether the hub can be reached: offline")
        elif source.get("revision") and not source.get("path"):
            tell(f"asking the hub for {key} ...")
            function = "ask_for_model" if source["source"] == "hub" else "ask_for_data"
            yield partial(_in_a_fork, key, function, source.get("id", source["source"]), source["revision"])


def _check_prompts(study: Study, work: Work, runs: list[Run], files: dict[str, Path], tell: Tell) -> None:
    """Refuse prompts that are too long, in the sets that are there, if the model's tokenizer is there too."""
    model = (study.results / study.fetched_file).parent
    if study.fetched_file in work.makes:
        model = study.root / getattr(study.config.model, "path", "no model yet")
    if not files or not (runs or any(each.file in work.makes for each in sets_of(study))):
        return
    if not model.is_dir():
        tell("prompts: their lengths are not checked, because the model is not there yet")
        return
    tell("reading the lengths of prompts ...")
    longest = max(runs, key=lambda run: run.arm_spec.training.get("max_completion_length", 0), default=None)
    _in_a_fork("", "check_prompts", model, longest and longest.spec, study.evaluation_spec, files)


def _in_a_fork(key: str, function: str, *arguments: Any) -> None:
    """Call a function of `model_files` in a fork, so that this process does not import torch."""

    def work() -> None:
        module = import_module("reward_ablation.start.model_files")
        getattr(module, function)(*arguments)

    with named(key) if key else nullcontext():
        within_limits(work, SECONDS, MEMORY, "the check")
