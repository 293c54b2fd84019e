"""Where a study is: its runs, its evaluations, and what failed beside training."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reward_ablation.cluster.command import SlurmError
from reward_ablation.cluster.job_names import job_name, prefix
from reward_ablation.cluster.jobs import run_jobs
from reward_ablation.cluster.slurm import SlurmJob, my_jobs
from reward_ablation.start.damage import Damage
from reward_ablation.start.history import is_held, read_history
from reward_ablation.start.plan import plan_of
from reward_ablation.start.run_status import Look, RunStatus, State
from reward_ablation.start.signs import read_log_end
from reward_ablation.start.stale import Present
from reward_ablation.study.run_folder import LOCK
from reward_ablation.study.study import Study

#: Seconds that Slurm gets to answer.
SLURM_SECONDS = 10.0


@dataclass(frozen=True)
class FailedJob:
    """A job beside training whose output is not there and whose log ends with an error; paths from the study's."""

    what: str
    error: str
    log: str


@dataclass(frozen=True)
class Status:
    """Where a study is."""

    study: Study
    #: Seconds since 1970.
    now: float
    #: All runs, in the study's order.
    runs: list[RunStatus]
    #: Pairs of a model and an evaluation set with answers, and in all; the models that a run kept count as one.
    evaluated: int
    evaluations: int
    #: What is wrong with damaged files of answers, by path from the results folder.
    damaged_answers: dict[str, str]
    failed_jobs: list[FailedJob]
    #: Whether hours are those of GPUs.
    on_gpus: bool


def ask_slurm() -> tuple[list[SlurmJob], str]:
    """This user's Slurm jobs, and why they are not known where Slurm is installed and does not answer."""
    if shutil.which("squeue") is None:
        return [], ""
    try:
        return my_jobs(SLURM_SECONDS), ""
    except SlurmError as error:
        return [], str(error)


def read_status(
    study: Study, present: Present, jobs: list[SlurmJob], code_counts: bool = True, now: float | None = None
) -> Status:
    """Where a study is.

    Parameters
    ----------
    study : Study
    present : Present
    jobs : list of SlurmJob
        All that are known, of other studies too.
    code_counts : bool
        Whether runs that other code or inputs trained are trained again, as for `plan_of`.
    now : float, optional
        Seconds since 1970; default: now.
    """
    root = study.root / study.config.root
    held = {name: is_held(root / "runs" / name / LOCK) for name in study.runs}
    history = read_history(root / "runs", study.runs)
    look = Look(root, held, history, present, time.time() if now is None else now, _jobs_of_runs(study, root, jobs))
    runs = [look.status(planned) for planned in plan_of(study, history, present, code_counts).runs]
    trained = [each.run.name for each in runs if each.state is State.DONE]
    answers = _answers(study, trained)
    damage = Damage(study)
    damaged = {file: what for model in ("base", *trained) for file, what in damage.of_answers(model).items()}
    return Status(
        study=study,
        now=look.now,
        runs=runs,
        evaluated=sum((root / job.output).is_file() for job in answers if job.output not in damaged),
        evaluations=(len(study.runs) + 1 + len(study.keeping_runs)) * len(study.datasets),
        damaged_answers=damaged,
        failed_jobs=list(_failed_jobs([*_preparations(study), *answers], root, study.config.root)),
        on_gpus=any(run.arm_spec.gpus for run in study.runs.values()),
    )


def _jobs_of_runs(study: Study, root: Path, jobs: list[SlurmJob]) -> dict[str, SlurmJob]:
    """The job of each run that waits or runs, or the last one that has ended otherwise than well."""
    of_study = prefix(study.config.name, root)
    names = {job_name(of_study, "train", run): run for run in study.runs}
    ended = sorted((job for job in jobs if not job.live and job.name in names), key=lambda job: job.end or 0)
    last = {names[job.name]: job for job in ended}
    badly = {run: job for run, job in last.items() if job.state != "COMPLETED"}
    return badly | run_jobs(of_study, study.runs, jobs)


@dataclass(frozen=True)
class _Job:
    """A job beside training: what it does, its output, and its log, both from the results folder."""

    what: str
    output: str
    log: str


def _preparations(study: Study) -> list[_Job]:
    """The base model, the supervised start where the study has one, and the sets of problems."""
    jobs = [_Job("fetch the base model", study.fetched_file, "logs/fetch/base.log")]
    if study.demonstrations_file is not None:
        jobs.append(_Job("prepare the demonstrations", study.demonstrations_file, "logs/prepare/sft.log"))
        jobs.append(_Job("learn the demonstrations", study.model_file, "logs/sft/base.log"))
    jobs.append(_Job("prepare the training set", study.problems_file, "logs/prepare/train.log"))
    for data in study.datasets:
        log = f"logs/prepare/evaluation/{data}.log"
        jobs.append(_Job(f"prepare {data}", f"data/evaluation/{data}.parquet", log))
    return jobs


def _answers(study: Study, trained: list[str]) -> list[_Job]:
    """Evaluations of the base model and of trained runs."""
    models = [(model, model, "") for model in ["base", *trained]]
    models += [(f"the kept models of {run}", run, ".steps") for run in trained if run in study.keeping_runs]
    return [
        _Job(
            f"evaluate {what} on {data}",
            f"{study.answers_folder}/{model}/{data}{of}.parquet",
            f"logs/evaluate/{model}/{data}{of}.log",
        )
        for what, model, of in models
        for data in study.datasets
    ]


def _failed_jobs(jobs: list[_Job], root: Path, shown: str) -> Iterator[FailedJob]:
    for job in jobs:
        log = None if (root / job.output).exists() else read_log_end(root / job.log)
        if log is not None and log.error:
            yield FailedJob(job.what, log.error, f"{shown}/{job.log}")
