"""The full check: all problems that would end a start or one of its jobs, as far as they can be known before.

A start calls it before its first job, and `reward-ablation plan` after planning. What a job would find after hours in a
queue is found here in seconds. The checks call the functions that the jobs call, so that both refuse the same. No check
writes into the results folder; `remember_settings` does, after a start's checks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from reward_ablation.config.sections.data import further_columns
from reward_ablation.config.sections.training import ALL_LINEAR
from reward_ablation.config.trl_settings import COMPLETION_LENGTH, BatchSizes, check_version, tracking_in
from reward_ablation.report.pages import installed
from reward_ablation.rewards.trial import is_wanted
from reward_ablation.spec.canonical import canonical
from reward_ablation.start.data_files import MEMORY, SECONDS, named, sets_of, try_preparation
from reward_ablation.start.history import read_record
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.job_options import resources_of, threads_of
from reward_ablation.study.provenance import (
    HARDWARE,
    MAY_DIFFER,
    Quantities,
    Trained,
    comparable_codes,
    quantities,
)
from reward_ablation.study.resolve import check_variables
from reward_ablation.study.reward_import import Request, check_calls, check_imports
from reward_ablation.study.reward_models import model_file
from reward_ablation.study.specs_of_config import layout_of
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import ERROR, StudyError, storage_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.gpus import gpus_here, too_few_gpus_text
from reward_ablation.system.limits import within_limits
from reward_ablation.system.masking import without_known_secrets
from reward_ablation.system.user_functions import in_a_file
from reward_ablation.training.around.launch.processes import srun_command
from reward_ablation.training.around.launch.worker import refuse_other_launchers

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """What a start is about to do."""

    runs: frozenset[str]  # names of the runs to train
    trains: bool  # a run, or the supervised start
    evaluates: bool
    scores: bool  # answers, by the study's own metrics
    makes: frozenset[str]  # base model, supervised start and sets of problems, as files below the results folder
    code_counts: bool  # whether runs of other code are trained again
    submits: bool  # whether jobs go to other machines
    site: Path | None  # the cluster's description; None if whoever submits the jobs checks them


def full_check(study: Study, work: Work, tell: Tell, offline: bool = False) -> list[str]:
    """All problems of a start or its jobs, a line each. Code of the study's files is called if there are none."""
    problems: list[str] = []

    def collect(check: Callable[..., list[str] | None], *arguments: Any) -> None:
        try:
            with storage_errors():
                problems.extend(check(*arguments) or ())
        except StudyError as error:
            problems.append(str(error))

    runs = [run for name, run in study.runs.items() if name in work.runs]
    collect(check_variables, study.config, os.environ, work.trains, work.scores)
    collect(check_before_training, study, work.code_counts, work.runs)
    collect(_check_machines, study, work, runs, tell)
    collect(_check_room, study, runs)
    with TemporaryDirectory(prefix="reward-ablation-") as folder:
        refused, files = try_preparation(study, work.makes, Path(folder), tell)
        problems += refused
        collect(_check_number_of_problems, runs, files)
        if study.sft_spec and study.model_file in work.makes and "sft.data" in files:
            collect(_check_demonstrations, study.sft_spec, files["sft.data"])
        before = len(problems)
        for check in _checks_of_fetching(study, work, tell, offline):
            collect(check)
        if len(problems) == before:
            collect(_check_prompts, study, work, runs, files, tell)
            collect(_check_layers, study, work)
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


def _check_machines(study: Study, work: Work, runs: list[Run], tell: Tell) -> None:
    """Refuse more GPUs than this machine has, vLLM where it cannot run, or jobs that the cluster would never run."""
    if work.submits:
        if work.site is not None:
            _check_cluster(study, work.site, runs, tell)
        return
    if (nodes := max((run.launch.nodes for run in runs), default=1)) > 1:
        srun_command(nodes)  # refuses a machine that is no node of a Slurm job
    of_one = min(1, study.config.launch.gpus) if work.trains or work.evaluates else 0
    largest = max((run.launch for run in runs), key=lambda launch: launch.all_gpus, default=None)
    needed = max(of_one, largest.all_gpus if largest else 0)
    if needed > (available := len(gpus_here()) if needed else 0):
        of_server = largest.vllm.server_gpus if largest and largest.vllm else 0
        raise StudyError(f"launch.gpus: {too_few_gpus_text(needed, available, of_server)}")
    by_vllm = study.config.evaluation.backend == "vllm" and (work.trains or work.evaluates)
    if by_vllm and (not study.config.launch.gpus or not find_spec("vllm")):
        raise StudyError("evaluation.backend: vllm needs the package vllm and a GPU; use auto or transformers")


def _check_cluster(study: Study, site_file: Path, runs: list[Run], tell: Tell) -> None:
    """Let Slurm judge one job for each arm, with the evaluation that follows in it, and an evaluation alone."""
    from snakemake.resources import Resource

    from reward_ablation.cluster.command import SlurmError
    from reward_ablation.cluster.preflight import check_jobs
    from reward_ablation.cluster.request import bundles
    from reward_ablation.cluster.site import read_site
    from reward_ablation.cluster.slurm import partitions

    def job(rule: str, threads: int, written: dict[str, Any]) -> SimpleNamespace:
        # Snakemake reads `2d` as minutes before it hands out a job.
        resources = {name: Resource.parse_human_friendly(name, value) for name, value in written.items()}
        return SimpleNamespace(rule=SimpleNamespace(name=rule), threads=threads, resources=resources, attempt=1)

    site = read_site(site_file)
    launches = {run.arm: run.launch for run in runs}.values()
    evaluation = job("evaluate", study.config.launch.threads, {"gpu": min(1, study.config.launch.gpus)})
    trainings = [job("train", threads_of(launch), resources_of(launch)) for launch in launches]
    jobs = [slurm_job for each in trainings for slurm_job in bundles([each], site, lambda job: [evaluation])]
    try:
        unknown = check_jobs([*jobs, [evaluation]], site, site_file, partitions())
    except SlurmError as error:
        raise StudyError(f"{site_file}: {error}; start this on a machine where `sinfo` answers") from None
    if unknown:
        tell(f"{site_file}: not checked whether Slurm takes all jobs: {unknown}")


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
        if count < (prompts := completions // (training.get("num_generations") or 8)):  # 8 is TRL's default
            raise StudyError(
                f"training: a generation takes {prompts} problems at once, and data.train has {count}; add problems, "
                "or lower per_device_train_batch_size or steps_per_generation"
            )


def _check_demonstrations(spec: str, problems: Path) -> None:
    """Refuse a demonstration without what its template needs, as the supervised start does."""
    from reward_ablation.sft.demonstrations import read_demonstrations  # here, because it is seldom needed
    from reward_ablation.spec.run import SftSpec

    read_demonstrations(problems, SftSpec.parse(spec))


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
    model = _base_model(study, work)
    if not files or not (runs or any(each.file in work.makes for each in sets_of(study))):
        return
    if not model.is_dir():
        tell("prompts: their lengths are not checked, because the model is not there yet")
        return
    tell("reading the lengths of prompts ...")
    longest = max(
        runs, key=lambda run: run.arm_spec.training.get("max_completion_length", COMPLETION_LENGTH), default=None
    )
    _in_a_fork("", "check_prompts", model, longest and longest.spec, study.evaluation_spec, files)


def _check_layers(study: Study, work: Work) -> None:
    """Refuse adapters of layers that the model does not have, if the model is there."""
    sections = {"lora": study.config.lora, "sft.lora": study.config.sft and study.config.sft.lora}
    loras = {key: each.model_dump() for key, each in sections.items() if each and each.target_modules != ALL_LINEAR}
    model = _base_model(study, work)
    if work.trains and loras and model.is_dir():
        _in_a_fork("", "check_layers", model, loras)


def _base_model(study: Study, work: Work) -> Path:
    """Folder of the fetched model, or of the local one that is to be fetched; it may be missing."""
    if study.fetched_file in work.makes:
        return study.root / getattr(study.config.model, "path", "no model yet")
    return (study.results / study.fetched_file).parent


def _in_a_fork(key: str, function: str, *arguments: Any) -> None:
    """Call a function of `model_files` in a fork, so that this process does not import torch."""

    def work() -> None:
        module = import_module("reward_ablation.start.model_files")
        getattr(module, function)(*arguments)

    with named(key) if key else nullcontext():
        within_limits(work, SECONDS, MEMORY, "the check")


#: File in the results folder: a digest of the settings that TRL accepted, of the packages, and of the checking code.
PASSED = ".settings_passed"
#: For each quantity, the value that was seen first, and where.
_Seen = dict[str, tuple[str, str]]


def check_training_settings(study: Study, folder: Path, tell: Callable[[str], None]) -> None:
    """Let TRL check every distinct set of settings, unless `remember_settings` recorded in `folder` that it did."""
    check_version()
    refuse_other_launchers()
    record = folder / PASSED
    if record.is_file() and record.read_text() == _digest_of_settings(study):
        return
    tell("asking TRL for its rules ...")
    _in_a_fork("", "check_settings", training_settings(study))


def training_settings(study: Study) -> list[str]:
    """Canonical JSON of each distinct set of settings, for `check_settings`."""
    asked = [
        ({**run.arm_spec.training, **tracking_in(study.config.training_of(study.arms[run.arm]))}, run.launch)
        for run in study.runs.values()
    ]
    settings = {canonical({"training": own, "layout": layout_of(launch).content()}) for own, launch in asked}
    if study.config.sft:
        settings.add(canonical({"sft": study.config.sft.training, "gpus": study.config.launch.gpus}))
    return sorted(settings)


def remember_settings(study: Study, folder: Path) -> None:
    """Record in the results folder that TRL accepted the settings. To be called after `check_training_settings`."""
    with contextlib.suppress(OSError), atomic_path(folder / PASSED) as temporary:  # other checks report the folder
        temporary.write_text(_digest_of_settings(study))


def _digest_of_settings(study: Study) -> str:
    """Digest of the settings, of the packages that judge them, and of the checking code."""
    packages = canonical({"python": sys.version, **installed()})
    checked = [*training_settings(study), packages, code_digest("reward_ablation.start.model_files")]
    return hashlib.sha256("\0".join(checked).encode()).hexdigest()


def check_reward_files(study: Study, trains: bool, scores: bool, tell: Callable[[str], None]) -> None:
    """Import the users' files that this start needs in other processes, and call their components once."""
    config, data = study.config, study.config.data
    requests: dict[str, Request] = {}
    if trains:
        for name, each in config.components.items():
            further = further_columns(data.train)
            requests[f"components.{name}"] = Request("components", each.function, each.parameters, further)
        methods = {arm: each.combine.method for arm, each in study.arms.items() if each.combine}
        requests |= {f"arms.{arm}.combine": Request("combination", method) for arm, method in methods.items()}
    if scores:
        for name, (function, parameters) in config.metric_functions().items():
            for source in data.evaluation.values():
                further = further_columns(source)
                requests[f"evaluation.metrics.{name}"] = Request("components", function, parameters, further)
    if own := {key: request for key, request in requests.items() if in_a_file(request.function)}:
        judging = {key: request for key, request in own.items() if key.startswith("evaluation.")}
        training = {key: request for key, request in own.items() if key not in judging}
        for of_one_job in filter(None, (training, judging)):  # their helpers may have the same names
            check_imports(of_one_job, study.root)
        called = {key: request for key, request in own.items() if key.startswith("components.")}
        if called and is_wanted():
            from reward_ablation.start.data_files import trial_of  # here, because it imports the grader

            trial = trial_of(study)
            for line in check_calls({key: each._replace(trial=trial) for key, each in called.items()}, study.root):
                tell(f"warning: {line}")


def check_before_training(study: Study, code_counts: bool = True, to_make: Collection[str] = ()) -> None:
    """Under `mixed_provenance: refuse`, refuse what the rule `tables_provenance` would. Runs `to_make` do not count."""
    if study.config.mixed_provenance == "tell":
        return
    seen: _Seen = {}
    to_train, trained = False, {}
    for name, run in study.runs.items():
        record = read_record(study.results / "runs" / name)
        if not record or name in to_make or (code_counts and record.get("code") != run.code):
            to_train = True
        elif "attempts" in record:  # else an older version wrote the record, and the tables report this
            trained[name] = record
    functions_of_study = [component.function for component in study.config.components.values()]
    functions = {name: run.arm_spec.functions for name, run in study.runs.items()}
    codes = comparable_codes(
        {name: Trained(record["code"], functions[name], record.get("modules", {})) for name, record in trained.items()},
        functions_of_study,
    )
    for name, record in trained.items():
        _compare(seen, quantities({**record, "code": codes[name]}), f"runs/{name}", study)
    if to_train and seen:
        packages = [name for name in seen if name not in {"code", "python", *HARDWARE}]
        coming = {"code": [training_digest(functions_of_study)], "python": [platform.python_version()]}
        coming |= {name: [_version_here(name)] for name in packages}
        _compare(seen, coming, "the runs to be trained now", study)


def _version_here(package: str) -> str:
    """Version of an installed package; `none`, as the table of provenance has it, where there is no such package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _compare(seen: _Seen, values: Quantities, where: str, study: Study) -> None:
    """Refuse values that differ from those seen first, and add new quantities to `seen`."""
    for quantity, of_run in values.items():
        for value in of_run if quantity not in MAY_DIFFER else []:
            first, first_where = seen.setdefault(quantity, (value, where))
            if value != first:
                raise StudyError(
                    f"{study.config.root}: {quantity} is {first} in {first_where} and {value} in {where}; delete the "
                    "runs that should be trained again, install the versions that the others were trained with, or set "
                    "mixed_provenance: tell"
                )
