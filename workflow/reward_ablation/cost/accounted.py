"""Hours of runs by Slurm's accounting.

The accounting has the end of a job as well as its start, and each time that a job was put back into the queue.
"""

from __future__ import annotations

from reward_ablation.analysis.runs import RunRecord, SlurmJob
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.cluster.command import SlurmError
from reward_ablation.cost.accounting import Allocation, allocations
from reward_ablation.cost.clocks import UNKNOWN, Hours, own_jobs

#: What Slurm's accounting says of jobs, by cluster, id and name. A job that was put back into the queue has several.
Accounting = dict[tuple[str | None, str, str], list[Allocation]]


def hours_accounted(jobs: list[SlurmJob], accounting: Accounting) -> Hours:
    """As Slurm accounts for the jobs."""
    by_key = {_key(job): job for job in jobs}
    if not by_key or any(key not in accounting for key in by_key):
        return UNKNOWN
    had = [(each, job) for key, job in by_key.items() for each in accounting[key]]
    gpu = sum(each.seconds * (job.gpus if each.gpus is None else each.gpus) for each, job in had)
    return Hours(gpu / 3600, sum(each.seconds * each.cpus for each, _ in had) / 3600)


def ask_accounting(study: StudyFile, records: dict[str, RunRecord]) -> Accounting:
    """What Slurm's accounting says of the runs' jobs; where it does not answer, or knows not all, a line tells.

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
    """What a job is known by: its id alone may come again."""
    return job.cluster, job.id, job.name or ""
