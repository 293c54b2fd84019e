"""Tables `runs` and `cost`: the cost of each run, and the sums by arm.

The rule `tables_cost` calls `write`. The other tables are in `analysis`, which must not know the cluster.

A run's own clock begins with the training process and ends when the final model is saved, when an attempt stops, or
with the last record of an attempt that was killed. The clock of a job begins when Slurm starts the job, and ends where
the run's clock ends. Slurm's accounting has clocks of its own (`accounting`). Unknown hours are NaN.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field, ValidationError

from reward_ablation.analysis.runs import Attempt, Requests, RunRecord, SlurmJob, read_runs
from reward_ablation.analysis.study_file import ALL_ARMS, Section, StudyFile, StudyRun
from reward_ablation.analysis.tables import joined, write_csv, write_table_page, write_tables
from reward_ablation.report.cost.accounting import UNKNOWN, Accounting, Hours, ask_accounting, hours_accounted, own_jobs
from reward_ablation.report.cost.columns import COST, COUNTS, JUDGE, METRIC, SCHEMAS, TIMES, hours_text, sentence
from reward_ablation.system.strict_text import load_json


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables `runs` and `cost`, and the page of costs. For runs in Slurm jobs, query Slurm's accounting."""
    runs = runs_table(study, options.study.parent)
    write_tables([("runs", runs)], {"runs": SCHEMAS["runs"]}, options.output, csv_only=COST)
    cost = cost_by_arm(runs, study.arm_names, [run.folder for run in study.runs])
    write_csv(cost, options.output / "cost.csv")
    write_cost_page(cost, study, options.output / "cost.html")


def runs_table(study: StudyFile, root: Path) -> pd.DataFrame:
    """Table `runs`: code, hardware and packages of each run's last attempt, and what it and its evaluations cost."""
    records = read_runs(study, root)
    accounting = ask_accounting(study, records)
    rows = []
    for run in study.runs:
        record = records[run.folder]
        rows.append(
            {"arm": run.arm, "key": run.key, "seed": run.seed, "steps": record.steps, "code": record.code}
            | cost_of_run(run, record, accounting)
            | requests_of_metrics(study, run, root)
            | evaluation_hours(study, run, root)
            | scoring_hours(study, run, root)
            | {"hardware": json.dumps(record.hardware and record.hardware.model_dump(), sort_keys=True)}
            | {"packages": json.dumps(record.packages, sort_keys=True)}
        )
    return joined(SCHEMAS["runs"], [pd.DataFrame(rows)])


def cost_of_run(run: StudyRun, record: RunRecord, accounting: Accounting) -> dict[str, int | float]:
    """Columns of the table `runs` on the cost of a run's training."""
    attempts = record.attempts
    losses = [*lost(attempts)]  # none of an imported run, which has no attempts
    gpu_seconds_lost = sum(wall * len(each.hardware.gpus) for (_, wall), each in zip(losses, attempts, strict=True))
    jobs = own_jobs(run, record)
    of_jobs, accounted = hours_of_jobs(jobs, attempts), hours_accounted(jobs, attempts, accounting)
    return {
        "attempts": len(attempts),
        "interrupted": sum(attempt.ended != "done" for attempt in attempts),
        "steps_lost": sum(steps for steps, _ in losses),
        **request_sums("judge", record.requests.values()),
        "wall_seconds": record.wall_seconds,
        "seconds_lost": round(sum(seconds for _, seconds in losses), 1),
        "gpu_hours": record.gpu_hours,
        "gpu_hours_lost": round(gpu_seconds_lost / 3600, 4),
        "gpu_hours_of_jobs": round(of_jobs.gpu, 4),
        "gpu_hours_accounted": round(accounted.gpu, 4),
        "cpu_hours": record.cpu_hours,
        "cpu_hours_of_jobs": round(of_jobs.cpu, 4),
        "cpu_hours_accounted": round(accounted.cpu, 4),
    }


def cost_by_arm(runs: pd.DataFrame, arms: Iterable[str], folders: Sequence[str]) -> pd.DataFrame:
    """Table `cost` from `runs`: a row per arm, and one of all, which counts shared `folders` once."""
    rows = [_summed(runs[runs["arm"] == arm], arm) for arm in arms]
    return pd.DataFrame([*rows, _summed(runs[~pd.Index(folders).duplicated()], ALL_ARMS)])


def _summed(runs: pd.DataFrame, arm: str) -> dict[str, Any]:
    times = {name: runs[column].sum(skipna=False) for name, column in TIMES.items()}
    return {
        "arm": arm,
        "runs": len(runs),
        **{name: int(runs[name].sum()) for name in COUNTS},
        **{name: round(time / 3600 if name.startswith("wall") else time, 4) for name, time in times.items()},
    }


def write_cost_page(table: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the table as an HTML page of the report, without columns that are empty in this study."""
    # A column is left out if all values are unknown, or zero in one of what not every study has.
    optional = [name for name in TIMES if "gpu" in name or name.startswith("scoring_")] + [*JUDGE, *METRIC]
    empty = table.isna().all() | (table.columns.isin(optional) & ~table.any())
    shown = [name for name in SCHEMAS["cost"].names if not empty[name]]
    words = {name: name.replace("_", " ").replace("gpu", "GPU").replace("cpu", "CPU") for name in shown}
    layout = {"float_format": hours_text, "na_rep": "not known"}
    heading = f"Cost of the runs of {study.name}"
    write_table_page(table[shown].rename(columns=words), heading, sentence(table.iloc[-1]), path, **layout)


def lost(attempts: list[Attempt]) -> list[tuple[int, float]]:
    """Steps, taken as equally long, and wall seconds of each attempt that a later attempt trained again."""
    losses = []
    for number, attempt in enumerate(attempts, start=1):
        # The last step that is part of the final model: a later attempt may have started from there.
        lasting = min((later.from_step for later in attempts[number:]), default=attempt.to_step)
        steps = max(0, attempt.to_step - max(attempt.from_step, lasting))
        # The record of a killed attempt may be older than its last checkpoint, hence the maximum.
        trained = max(attempt.to_step, lasting) - attempt.from_step
        seconds = (attempt.wall_seconds - attempt.start_seconds) * steps / max(1, trained)
        nothing_lasts = number < len(attempts) and lasting <= attempt.from_step
        losses.append((steps, attempt.wall_seconds if nothing_lasts else seconds))
    return losses


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
    """Hours of all evaluations of a run, from the records beside the answers; NaN without, or if one is lost or old."""
    files = [study.answers_file(dataset, run.name) for dataset in study.datasets]
    if study.keep_models:
        files += [study.kept_answers_file(dataset, run.name) for dataset in study.datasets]
    records = [_recorded_hours(root / f"{file.removesuffix('.parquet')}.json") for file in files]
    wall, gpu, cpu = (
        round(sum(column), 4) for column in zip(*records or [(math.nan, math.nan, math.nan)], strict=True)
    )
    return {"evaluation_wall_hours": wall, "evaluation_gpu_hours": gpu, "evaluation_cpu_hours": cpu}


def scoring_hours(study: StudyFile, run: StudyRun, root: Path) -> dict[str, float]:
    """Hours of jobs that scored a run's answers, by Snakemake's clock; NaN if a file is lost, 0 without own metrics."""
    kinds = (study.scores_file, study.kept_scores_file)[: 2 if study.keep_models else 1]
    files = [Path(file) for file_of in kinds for dataset in study.datasets if (file := file_of(dataset, run.name))]
    folder = root / "benchmarks" / "score" / run.name
    wall = sum(_benchmark_seconds(folder / f"{file.stem}.tsv") for file in files) / 3600
    return {"scoring_wall_hours": round(wall, 4), "scoring_gpu_hours": round(wall * study.scoring_gpus, 4)}


def _benchmark_seconds(path: Path) -> float:
    """Wall time of a job from its Snakemake benchmark file: a line of names and a line of values."""
    try:
        names, values = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[:2])
        return float(dict(zip(names, values, strict=True))["s"])
    except (FileNotFoundError, ValueError, KeyError):
        return math.nan


def _recorded_hours(path: Path) -> tuple[float, float, float]:
    try:
        record = load_json(path.read_text(encoding="utf-8"))
        return record["wall_seconds"] / 3600, float(record["gpu_hours"]), float(record["cpu_hours"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return math.nan, math.nan, math.nan


class _Record(Section):
    """The record beside a file of scores, as `reward_ablation.scores` writes it."""

    requests: dict[str, Requests] = Field(default_factory=dict)


def request_sums(whose: str, asked: Iterable[Requests]) -> dict[str, int]:
    """Sum requests over all models that were asked; the columns' names begin with `whose`: judge or metric."""
    models = list(asked)
    return {f"{whose}_{name}": sum(getattr(model, name) for model in models) for name in Requests.model_fields}


def requests_of_metrics(study: StudyFile, run: StudyRun, root: Path) -> dict[str, int]:
    """Requests of the study's own metrics, from the records beside the scores, which not every metric has."""
    kinds = (study.scores_file, study.kept_scores_file)
    files = (file_of(dataset, run.name) for dataset in study.datasets for file_of in kinds)
    return request_sums("metric", [requests for file in files if file for requests in _requests(root / file)])


def _requests(scores: Path) -> Iterator[Requests]:
    try:
        record = _Record.model_validate_json(scores.with_suffix(".json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return
    yield from record.requests.values()
