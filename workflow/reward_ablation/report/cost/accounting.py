"""Hours of runs by Slurm's accounting.

`tables`, which the rule `tables_cost` runs, asks it for runs that were trained in Slurm jobs. No other part of the
tables talks to the cluster. Where the cluster does not answer, its hours are left out.

The accounting knows when a job started and ended, also for each earlier start of a job that was put back into the
queue.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from reward_ablation.analysis.runs import Attempt, RunRecord, SlurmJob
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.cluster.command import SlurmError, run_slurm_command
from reward_ablation.cluster.job_names import job_name

#: Most jobs in one query: the length of a command line is limited, and a large query may time out.
AT_ONCE = 500


class Hours(NamedTuple):
    """GPU hours and CPU hours."""

    gpu: float
    cpu: float


UNKNOWN = Hours(math.nan, math.nan)


@dataclass(frozen=True)
class Allocation:
    """Time and resources of a job, for each time that it ran; `gpus` is None if the accounting counts none."""

    id: str
    name: str
    state: str
    seconds: int  # without suspensions
    cpus: int
    gpus: int | None
    start: float | None = None  # since 1970


#: Allocations of jobs, by cluster, id and name.
Accounting = dict[tuple[str | None, str, str], list[Allocation]]


def allocations(jobs: Iterable[str], cluster: str | None = None, timeout: float = 30.0) -> list[Allocation]:
    """All allocations of jobs by Slurm's accounting of a cluster, or this machine's; SlurmError without an answer."""
    ids = sorted(set(jobs))
    of_cluster = [f"--clusters={cluster}"] if cluster else []
    results = []
    for first in range(0, len(ids), AT_ONCE):
        command = ["sacct", "--allocations", "--duplicates", "--noheader", "--parsable2", *of_cluster]
        of_jobs = f"--jobs={','.join(ids[first : first + AT_ONCE])}"
        text = run_slurm_command(
            *command, "--format=JobIDRaw,State,ElapsedRaw,AllocTRES,Start,JobName", of_jobs, timeout=timeout
        )
        results += [_allocation(line) for line in text.splitlines() if line.count("|") >= 5]
    return results


def _allocation(line: str) -> Allocation:
    job, state, seconds, tres, start, name = line.split("|", 5)
    began = float(start) if start.isdecimal() else None
    return Allocation(job, name, state, int(seconds or 0), _count("cpu", tres) or 0, _gpus(tres), began)


def _gpus(tres: str) -> int | None:
    """GPUs in a list such as `cpu=2,gres/gpu:h200=1,gres/gpu=1`, which counts the same GPU with and without type."""
    typed = re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d+)", tres)
    count = _count("gres/gpu", tres)
    return sum(map(int, typed)) if count is None and typed else count


def _count(resource: str, tres: str) -> int | None:
    match = re.search(rf"(?:^|,){re.escape(resource)}=(\d+)", tres)
    return int(match[1]) if match else None


def own_jobs(run: StudyRun, record: RunRecord) -> list[SlurmJob]:
    """Slurm job of each attempt; empty if an attempt ran outside of Slurm or in a job of several runs."""
    name = job_name("", "train", run.name)
    jobs = [attempt.slurm for attempt in record.attempts if attempt.slurm and (attempt.slurm.name or "").endswith(name)]
    return jobs if len(jobs) == len(record.attempts) else []


def hours_accounted(jobs: list[SlurmJob], attempts: list[Attempt], accounting: Accounting) -> Hours:
    """Hours of the attempts' jobs, until the training's end; unknown without jobs, or if the accounting lacks one."""
    by_key = {_key(job): job for job in jobs}
    if not by_key or any(key not in accounting for key in by_key):
        return UNKNOWN
    ending = {_key(job): (job, attempt) for job, attempt in zip(jobs, attempts, strict=True) if attempt.ended == "done"}
    times = [
        (allocation, job, _seconds(allocation, *ending.get(key, (job, None))))
        for key, job in by_key.items()
        for allocation in accounting[key]
    ]
    gpu = sum(seconds * (job.gpus if allocated.gpus is None else allocated.gpus) for allocated, job, seconds in times)
    return Hours(gpu / 3600, sum(seconds * allocated.cpus for allocated, _, seconds in times) / 3600)


def _seconds(allocation: Allocation, job: SlurmJob, last: Attempt | None) -> float:
    """Seconds of training in an allocation. If the attempt `last` ended it, further parts of the job do not count."""
    if job.parts == 1 or last is None or job.start is None or job.seconds_before is None or allocation.start is None:
        return allocation.seconds
    if allocation.start > job.start:  # Slurm started the job again after the training had ended
        return 0
    if allocation.start < job.start:
        return allocation.seconds
    return min(allocation.seconds, job.seconds_before + last.wall_seconds)


def ask_accounting(study: StudyFile, records: dict[str, RunRecord]) -> Accounting:
    """Query the accounting of all runs in Slurm jobs of their own; print what a cluster does not answer or know."""
    jobs = {_key(job): job for run in study.runs for job in own_jobs(run, records[run.folder])}
    accounting: Accounting = {}
    for cluster in dict.fromkeys(job.cluster for job in jobs.values()):
        name = f"accounting of {cluster or 'the cluster'}"
        try:
            answers = allocations((job.id for job in jobs.values() if job.cluster == cluster), cluster)
        except SlurmError as error:
            print(f"cost: {name}: {error}; its hours are left out", flush=True)
            continue
        for allocation in answers:
            accounting.setdefault((cluster, allocation.id, allocation.name), []).append(allocation)
        known = [key in accounting for key in jobs if key[0] == cluster]
        if not all(known):
            left_out = "accounted hours of their runs are left out"
            print(f"cost: {name}: does not know {known.count(False)} of {len(known)} jobs; {left_out}", flush=True)
    return accounting


def _key(job: SlurmJob) -> tuple[str | None, str, str]:
    """Cluster, id and name identify a job. The id alone does not, because Slurm may use an id again."""
    return job.cluster, job.id, job.name or ""
