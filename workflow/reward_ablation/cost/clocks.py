"""Hours of a run: of its attempts, its Slurm jobs, its evaluations and the scoring of its answers.

A run's own clock begins with the training process and ends with the last step, or with the last record of an attempt
that was killed. The clock of a job begins when Slurm starts the job, and ends where the run's clock ends. Unknown hours
are NaN.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from reward_ablation.analysis.runs import Attempt, RunRecord, SlurmJob
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.cluster.job_names import job_name
from reward_ablation.system.strict_text import load_json


class Hours(NamedTuple):
    """GPU hours and CPU hours."""

    gpu: float
    cpu: float


UNKNOWN = Hours(math.nan, math.nan)


def lasting_steps(attempts: list[Attempt]) -> list[int]:
    """Last step of each attempt that is part of the final model. A later attempt may have started from there."""
    return [
        min((later.from_step for later in attempts[number + 1 :]), default=attempt.to_step)
        for number, attempt in enumerate(attempts)
    ]


def lost_steps(attempts: list[Attempt]) -> list[int]:
    """Steps of each attempt after its last checkpoint, which a later attempt trained again."""
    return [
        max(0, attempt.to_step - max(attempt.from_step, lasting))
        for attempt, lasting in zip(attempts, lasting_steps(attempts), strict=True)
    ]


def lost_seconds(attempts: list[Attempt]) -> list[float]:
    """Wall time of each attempt's lost steps, if all steps took equally long.

    An attempt from which no step is in the final model lost all of its time.
    """
    seconds = []
    for attempt, lost, lasting in zip(attempts, lost_steps(attempts), lasting_steps(attempts), strict=True):
        if attempt is not attempts[-1] and lasting <= attempt.from_step:
            seconds.append(attempt.wall_seconds)
        else:
            # The record of a killed attempt may be older than its last checkpoint, hence the maximum.
            steps = max(attempt.to_step, lasting) - attempt.from_step
            seconds.append((attempt.wall_seconds - attempt.start_seconds) * lost / max(1, steps))
    return seconds


def own_jobs(run: StudyRun, record: RunRecord) -> list[SlurmJob]:
    """Slurm job of each attempt; empty if an attempt ran outside of Slurm or in a job of several runs."""
    name = job_name("", "train", run.name)
    jobs = [attempt.slurm for attempt in record.attempts if attempt.slurm and (attempt.slurm.name or "").endswith(name)]
    return jobs if len(jobs) == len(record.attempts) else []


def hours_of_jobs(jobs: list[SlurmJob], attempts: list[Attempt]) -> Hours:
    """Hours from the start of each job to the last record of its attempts; `jobs` has the job of each attempt."""
    if not jobs or any(job.seconds_before is None or job.cpus is None for job in jobs):
        return UNKNOWN
    longest: dict[tuple[str, float | None], tuple[float, SlurmJob]] = {}
    for job, attempt in zip(jobs, attempts, strict=True):
        key = (job.id, job.start)  # a job that was put back into the queue keeps its id
        seconds = (job.seconds_before or 0.0) + attempt.wall_seconds
        longest[key] = (max(seconds, longest[key][0]) if key in longest else seconds, job)
    gpu = sum(seconds * job.gpus for seconds, job in longest.values())
    cpu = sum(seconds * (job.cpus or 0) for seconds, job in longest.values())
    return Hours(gpu / 3600, cpu / 3600)


def evaluation_hours(study: StudyFile, run: StudyRun, root: Path) -> dict[str, float]:
    """Hours of all evaluations of a run's models, from the records beside the answers.

    Hours are NaN if a record is lost or has an old format. Nothing else reads the records, so a lost record is no
    reason to evaluate again.
    """
    files = [study.answers_file(dataset, run.name) for dataset in study.datasets]
    if study.keep_models:
        files += [study.kept_answers_file(dataset, run.name) for dataset in study.datasets]
    records = [_hours(root / f"{file.removesuffix('.parquet')}.json") for file in files]
    wall, gpu, cpu = (round(sum(column), 4) for column in zip(*records, strict=True))
    return {"evaluation_wall_hours": wall, "evaluation_gpu_hours": gpu, "evaluation_cpu_hours": cpu}


def scoring_hours(study: StudyFile, run: StudyRun, root: Path) -> dict[str, float]:
    """Hours of the jobs that scored the answers of a run's models by the study's own metrics, by Snakemake's clock.

    Hours are NaN if Snakemake's benchmark file of a job is lost, and 0 in a study without metrics of its own.
    """
    kinds = (study.scores_file, study.kept_scores_file)[: 2 if study.keep_models else 1]
    files = [Path(file) for of in kinds for dataset in study.datasets if (file := of(dataset, run.name))]
    wall = sum(_seconds(root / "benchmarks" / "score" / run.name / f"{file.stem}.tsv") for file in files) / 3600
    return {"scoring_wall_hours": round(wall, 4), "scoring_gpu_hours": round(wall * study.scoring_gpus, 4)}


def _seconds(path: Path) -> float:
    """Wall time of a job from its Snakemake benchmark file: a line of names and a line of values."""
    try:
        names, values = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[:2])
        return float(dict(zip(names, values, strict=True))["s"])
    except (FileNotFoundError, ValueError, KeyError):
        return math.nan


def _hours(path: Path) -> tuple[float, float, float]:
    try:
        record = load_json(path.read_text(encoding="utf-8"))
        return record["wall_seconds"] / 3600, float(record["gpu_hours"]), float(record["cpu_hours"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return math.nan, math.nan, math.nan
