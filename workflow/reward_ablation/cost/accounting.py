"""Hours of runs by Slurm's accounting.

The accounting has the end of a job as well as its start, and each time that a job was put back into the queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from reward_ablation.analysis.runs import Attempt, RunRecord, SlurmJob
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.cluster.command import SlurmError, ask
from reward_ablation.cost.clocks import UNKNOWN, Hours, own_jobs

#: Jobs of one query: a command line has its limits, and so has a database's patience.
AT_ONCE = 500


@dataclass(frozen=True)
class Allocation:
    """What a job had each time that it ran; `seconds` leave out the time that the job was suspended.

    `start` is in seconds since 1970, and None where the job never began.

    `gpus` is None where Slurm does not say: Slurm counts GPUs only where AccountingStorageTRES has gres/gpu.
    """

    id: str
    name: str
    state: str
    seconds: int
    cpus: int
    gpus: int | None
    start: float | None = None


#: What Slurm's accounting says of jobs, by cluster, id and name. A job that was put back into the queue has several.
Accounting = dict[tuple[str | None, str, str], list[Allocation]]


def allocations(jobs: Iterable[str], cluster: str | None = None, timeout: float = 30.0) -> list[Allocation]:
    """All allocations of jobs, given by id.

    Parameters
    ----------
    cluster : str, optional
        Name of the cluster, if it may be another than this machine's.
    timeout : float
        Seconds to wait for an answer, for each 500 jobs.

    Raises
    ------
    SlurmError
        There is no `sacct` here, or accounting is disabled, or its database does not answer.
    """
    ids = sorted(set(jobs))
    of_cluster = [f"--clusters={cluster}"] if cluster else []
    found = []
    for place in range(0, len(ids), AT_ONCE):
        command = ["sacct", "--allocations", "--duplicates", "--noheader", "--parsable2", *of_cluster]
        some = f"--jobs={','.join(ids[place : place + AT_ONCE])}"
        text = ask(*command, "--format=JobIDRaw,State,ElapsedRaw,AllocTRES,Start,JobName", some, timeout=timeout)
        found += [_allocation(line) for line in text.splitlines() if line.count("|") >= 5]
    return found


def _allocation(line: str) -> Allocation:
    job, state, seconds, tres, start, name = line.split("|", 5)
    began = float(start) if start.isdecimal() else None
    return Allocation(job, name, state, int(seconds or 0), _count("cpu", tres) or 0, _gpus(tres), began)


def _gpus(tres: str) -> int | None:
    """GPUs of a list such as `cpu=2,gres/gpu:h200=1,gres/gpu=1`, where those of a type are counted a second time."""
    typed = re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d+)", tres)
    count = _count("gres/gpu", tres)
    return sum(map(int, typed)) if count is None and typed else count


def _count(resource: str, tres: str) -> int | None:
    match = re.search(rf"(?:^|,){re.escape(resource)}=(\d+)", tres)
    return int(match[1]) if match else None


def hours_accounted(jobs: list[SlurmJob], attempts: list[Attempt], accounting: Accounting) -> Hours:
    """As Slurm accounts for the jobs, given for each attempt.

    Of a job that went on with the evaluation of the run, the time until the end of the training counts.
    """
    by_key = {_key(job): job for job in jobs}
    if not by_key or any(key not in accounting for key in by_key):
        return UNKNOWN
    ends = {_key(job): (job, attempt) for job, attempt in zip(jobs, attempts, strict=True) if attempt.ended == "done"}
    had = [
        (each, job, _seconds(each, *ends.get(key, (job, None))))
        for key, job in by_key.items()
        for each in accounting[key]
    ]
    gpu = sum(seconds * (job.gpus if each.gpus is None else each.gpus) for each, job, seconds in had)
    return Hours(gpu / 3600, sum(seconds * each.cpus for each, _, seconds in had) / 3600)


def _seconds(had: Allocation, job: SlurmJob, last: Attempt | None) -> float:
    """Seconds of an allocation that a run was trained in; `last` is the attempt of this job that ended the training."""
    if job.parts == 1 or last is None or job.start is None or job.seconds_before is None or had.start is None:
        return had.seconds
    if had.start > job.start:  # Slurm has started the job again, and the training was done
        return 0
    return had.seconds if had.start < job.start else min(had.seconds, job.seconds_before + last.wall_seconds)


def ask_accounting(study: StudyFile, records: dict[str, RunRecord]) -> Accounting:
    """What Slurm's accounting says of the runs' jobs; a line is printed where it does not answer or does not know all.

    Nothing is asked where no run was in Slurm jobs of its own.
    """
    jobs = {_key(job): job for run in study.runs for job in own_jobs(run, records[run.folder])}
    found: Accounting = {}
    for cluster in dict.fromkeys(job.cluster for job in jobs.values()):
        name = f"accounting of {cluster or 'the cluster'}"
        try:
            answers = allocations((job.id for job in jobs.values() if job.cluster == cluster), cluster)
        except SlurmError as error:
            print(f"cost: {name}: {error}; hours by it are left out", flush=True)
            continue
        for had in answers:
            found.setdefault((cluster, had.id, had.name), []).append(had)
        known = [key in found for key in jobs if key[0] == cluster]
        if not all(known):
            left_out = "hours of their runs are left out"
            print(f"cost: {name}: does not know {known.count(False)} of {len(known)} jobs; {left_out}", flush=True)
    return found


def _key(job: SlurmJob) -> tuple[str | None, str, str]:
    """What identifies a job: Slurm may give its id again."""
    return job.cluster, job.id, job.name or ""
