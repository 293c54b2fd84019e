"""Tables `runs` and `cost`: the cost of each run, and the sums by arm."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from reward_ablation.analysis.runs import RunRecord, read_runs
from reward_ablation.analysis.study_file import ALL_ARMS, StudyFile, StudyRun
from reward_ablation.analysis.tables import joined, write_table_page
from reward_ablation.cost.accounting import Accounting, ask_accounting, hours_accounted
from reward_ablation.cost.clocks import (
    evaluation_hours,
    hours_of_jobs,
    lost_seconds,
    lost_steps,
    own_jobs,
    scoring_hours,
)
from reward_ablation.cost.requests import request_sums, requests_of_metrics
from reward_ablation.cost.table import COUNTS, JUDGE, METRIC, SCHEMAS, TIMES, hours_text, sentence


def runs_table(study: StudyFile, root: Path) -> pd.DataFrame:
    """Table `runs`: the code, hardware and packages that trained each run, and the cost of the run and its evaluations.

    Hardware and packages are from the last attempt, as JSON text. `root` is the study's folder.
    """
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
            | {"hardware": json.dumps(record.hardware.model_dump(), sort_keys=True)}
            | {"packages": json.dumps(record.packages, sort_keys=True)}
        )
    return joined(SCHEMAS["runs"], [pd.DataFrame(rows)])


def cost_of_run(run: StudyRun, record: RunRecord, accounting: Accounting) -> dict[str, int | float]:
    """Columns of the table `runs` on the cost of a run's training."""
    attempts = record.attempts
    seconds_lost = lost_seconds(attempts)
    gpus = [len(attempt.hardware.gpus) for attempt in attempts]
    gpu_seconds_lost = sum(seconds * number for seconds, number in zip(seconds_lost, gpus, strict=True))
    jobs = own_jobs(run, record)
    of_jobs, accounted = hours_of_jobs(jobs, attempts), hours_accounted(jobs, attempts, accounting)
    return {
        "attempts": len(attempts),
        "interrupted": sum(attempt.ended != "done" for attempt in attempts),
        "steps_lost": sum(lost_steps(attempts)),
        **request_sums("judge", record.requests.values()),
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
    """Table `cost` from the table `runs`: a row per arm, and a last row for all runs.

    The last row counts runs once that two arms share.
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


def write_cost_page(table: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the table as an HTML page of the report, without columns that are empty in this study."""
    shown = [name for name in table.columns if not _is_empty(name, table[name])]
    words = {name: name.replace("_", " ").replace("gpu", "GPU").replace("cpu", "CPU") for name in shown}
    layout = {"float_format": hours_text, "na_rep": "not known"}
    heading = f"Cost of the runs of {study.name}"
    write_table_page(table[shown].rename(columns=words), heading, sentence(table.iloc[-1]), path, **layout)


def _is_empty(name: str, column: pd.Series) -> bool:
    """Whether all values are unknown, or zero in a column of GPUs, scoring or requests, which not every study has."""
    zero_is_empty = "gpu" in name or name.startswith("scoring_") or name in (*JUDGE, *METRIC)
    return bool(column.isna().all() or (zero_is_empty and not column.any()))
