"""Times of a run by the clocks of its attempts and of its Slurm jobs.

A run's own clock begins with the process that trains and ends with the last step, or with the last record of an attempt
that was killed. A job's clock begins when Slurm starts the job, and ends there too. What is not known is NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from reward_ablation.analysis.runs import Attempt, RunRecord, SlurmJob
from reward_ablation.analysis.study_file import StudyRun
from reward_ablation.cluster.job_names import job_name


class Hours(NamedTuple):
    """Of GPUs and of CPUs."""

    gpu: float
    cpu: float


UNKNOWN = Hours(math.nan, math.nan)


def lasting_steps(attempts: list[Attempt]) -> list[int]:
    """The step up to which each attempt's work is in the final model: a later one went on from there."""
    return [
        min((later.from_step for later in attempts[place + 1 :]), default=attempt.to_step)
        for place, attempt in enumerate(attempts)
    ]


def lost_steps(attempts: list[Attempt]) -> list[int]:
    """Steps of each attempt that a later one trained again, since they came after its last checkpoint."""
    return [
        max(0, attempt.to_step - max(attempt.from_step, lasting))
        for attempt, lasting in zip(attempts, lasting_steps(attempts), strict=True)
    ]


def lost_seconds(attempts: list[Attempt]) -> list[float]:
    """Wall time of each attempt's lost steps, or all of it where nothing of it lasts.

    The steps of an attempt are taken to be equally long.
    """
    seconds = []
    for attempt, lost, lasting in zip(attempts, lost_steps(attempts), lasting_steps(attempts), strict=True):
        if attempt is not attempts[-1] and lasting <= attempt.from_step:
            seconds.append(attempt.wall_seconds)
        else:
            made = max(attempt.to_step, lasting) - attempt.from_step  # a killed attempt's record may lag behind
            seconds.append((attempt.wall_seconds - attempt.start_seconds) * lost / max(1, made))
    return seconds


def own_jobs(run: StudyRun, record: RunRecord) -> list[SlurmJob]:
    """The Slurm job of each attempt; none where one ran without, or in a job that was not for this run alone."""
    name = job_name("", "train", run.name)
    jobs = [attempt.slurm for attempt in record.attempts if attempt.slurm and (attempt.slurm.name or "").endswith(name)]
    return jobs if len(jobs) == len(record.attempts) else []


def hours_of_jobs(jobs: list[SlurmJob], attempts: list[Attempt]) -> Hours:
    """From the start of each job to the last record of its attempts."""
    if not jobs or any(job.seconds_before is None or job.cpus is None for job in jobs):
        return UNKNOWN
    given: dict[tuple[str, float | None], tuple[float, SlurmJob]] = {}
    for job, attempt in zip(jobs, attempts, strict=True):
        key = (job.id, job.start)  # a job that was put back into the queue keeps its id
        seconds = (job.seconds_before or 0.0) + attempt.wall_seconds
        given[key] = (max(seconds, given[key][0]) if key in given else seconds, job)
    gpu = sum(seconds * job.gpus for seconds, job in given.values())
    cpu = sum(seconds * (job.cpus or 0) for seconds, job in given.values())
    return Hours(gpu / 3600, cpu / 3600)
