"""What runs cost: hours by their own clocks, by the clocks of their Slurm jobs, and by Slurm's accounting.

A run's own clock begins with the process that trains and ends with the last step, or with the last record of an attempt
that was killed. A job's clock begins when Slurm starts the job, and ends there too. The accounting has the job's end as
well, and each time that a job was put back into the queue. What is not known is NaN, and so is a sum of it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from reward_ablation.analysis.provenance import ALL_ARMS
from reward_ablation.analysis.runs import Attempt, RunRecord, SlurmJob
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.cluster.accounting import Allocation, allocations
from reward_ablation.cluster.command import SlurmError
from reward_ablation.cluster.jobs import job_name
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import PAGE

#: What Slurm's accounting says of jobs, by cluster, id and name; a job that was put back into the queue has several.
Accounting = dict[tuple[str | None, str, str], list[Allocation]]

#: Columns of the table of runs that are summed by arm: numbers, and times, by the names that they get in hours.
COUNTS = ["steps", "attempts", "interrupted", "steps_lost"]
TIMES = {
    "wall_hours": "wall_seconds",
    "wall_hours_lost": "seconds_lost",
    "gpu_hours": "gpu_hours",
    "gpu_hours_lost": "gpu_hours_lost",
    "gpu_hours_of_jobs": "gpu_hours_of_jobs",
    "gpu_hours_accounted": "gpu_hours_accounted",
    "cpu_hours": "cpu_hours",
    "cpu_hours_of_jobs": "cpu_hours_of_jobs",
    "cpu_hours_accounted": "cpu_hours_accounted",
    "evaluation_wall_hours": "evaluation_wall_hours",
    "evaluation_gpu_hours": "evaluation_gpu_hours",
    "evaluation_cpu_hours": "evaluation_cpu_hours",
}

#: Whose hours a column has, by the end of its name.
CLOCKS = {"": "their own clocks", "_of_jobs": "the clocks of their Slurm jobs", "_accounted": "Slurm's accounting"}


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


def cost_of_run(run: StudyRun, record: RunRecord, accounting: Accounting) -> dict[str, int | float]:
    """What a run cost, as the table of runs has it."""
    attempts = record.attempts
    seconds_lost = lost_seconds(attempts)
    gpus = [len(attempt.hardware.gpus) for attempt in attempts]
    gpu_seconds_lost = sum(seconds * number for seconds, number in zip(seconds_lost, gpus, strict=True))
    jobs = own_jobs(run, record)
    of_jobs, accounted = hours_of_jobs(jobs, attempts), hours_accounted(jobs, accounting)
    return {
        "attempts": len(attempts),
        "interrupted": sum(attempt.ended != "done" for attempt in attempts),
        "steps_lost": sum(lost_steps(attempts)),
        "wall_seconds": record.wall_seconds,
        "seconds_lost": round(sum(seconds_lost), 1),
        "gpu_hours": record.gpu_hours,
        "gpu_hours_lost": round(gpu_seconds_lost / 3600, 4),
        "gpu_hours_of_jobs": round(of_jobs.gpu, 4),
        "gpu_hours_accounted": round(accounted.gpu, 4),
        "cpu_hours": record.cpu_hours,
        "cpu_hours_of_jobs": round(of_jobs.cpu, 4),
        "cpu_hours_accounted": round(accounted.cpu, 4),
    }


def cost_by_arm(runs: pd.DataFrame, arms: Iterable[str]) -> pd.DataFrame:
    """One row per arm, and one for all runs, of which two arms may share some.

    Parameters
    ----------
    runs : DataFrame
        Table `runs`.

    Returns
    -------
    Columns: arm, runs, and those of `COUNTS` and `TIMES`.
    """
    rows = [_summed(runs[runs["arm"] == arm], arm) for arm in arms]
    return pd.DataFrame([*rows, _summed(runs.drop_duplicates(["key", "seed"]), ALL_ARMS)])


def _summed(runs: pd.DataFrame, arm: str) -> dict[str, Any]:
    times = {name: runs[column].sum(skipna=False) for name, column in TIMES.items()}
    return {
        "arm": arm,
        "runs": len(runs),
        **{name: int(runs[name].sum()) for name in COUNTS},
        **{name: round(time / 3600 if name.startswith("wall") else time, 4) for name, time in times.items()},
    }


def write_cost(table: pd.DataFrame, path: Path) -> None:
    """Write the table as CSV. There is no Parquet file of it: those are equal for equal studies, and times are not."""
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")


def read_cost(path: Path) -> pd.DataFrame:
    """Read a table that `write_cost` wrote.

    Raises
    ------
    StudyError
        It is missing or damaged.
    """
    try:
        table = pd.read_csv(path)
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file; run the workflow again, it makes what is missing") from None
    except ValueError as error:  # pandas' own errors are these
        raise StudyError(f"{path}: truncated or changed ({error}); delete it and run the workflow again") from error
    complete = list(table.columns) == ["arm", "runs", *COUNTS, *TIMES] and ALL_ARMS in table["arm"].tail(1).tolist()
    if not complete:
        raise StudyError(f"{path}: truncated or changed since it was written; delete it and run the workflow again")
    return table


def write_cost_page(table: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the table as HTML, for the report, without the columns that say nothing in this study."""
    telling = [name for name in table.columns if not _says_nothing(name, table[name])]
    told = table[telling].rename(columns={name: _words(name) for name in telling})
    shown = told.to_html(index=False, border=0, justify="left", float_format=_hours, na_rep="not known")
    heading = f"Cost of the runs of {html.escape(study.name)}"
    with atomic_path(path) as temporary:
        temporary.write_text(PAGE.format(heading=heading, sentence=sentence(table.iloc[-1]), table=shown))


def sentence(total: pd.Series) -> str:
    """What all runs cost, in the unit that the study is paid in."""
    unit = "gpu" if total["gpu_hours"] > 0 else "cpu"
    hours = {clock: total[f"{unit}_hours{ending}"] for ending, clock in CLOCKS.items()}
    told = ", ".join(f"{_hours(value)} by {clock}" for clock, value in hours.items() if value >= 0)
    runs = "1 run" if total["runs"] == 1 else f"{total['runs']} runs"
    took = f"{runs} took {_hours(total['wall_hours'])} hours" + (f"; {unit.upper()} hours: {told}" if told else "")
    return f"{took}; steps that were trained twice: {total['steps_lost']}"


def _says_nothing(name: str, column: pd.Series) -> bool:
    return bool(column.isna().all() or ("gpu" in name and not column.any()))


def _words(name: str) -> str:
    return name.replace("_", " ").replace("gpu", "GPU").replace("cpu", "CPU")


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value >= 1 else f"{value:.4f}"
