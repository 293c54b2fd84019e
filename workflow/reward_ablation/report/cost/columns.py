"""Columns of the tables `runs` and `cost`, and how other stages read the table `cost` and put it into a sentence.

`tables` makes the tables. The summary, the first page and the figure of costs read `cost` here, because they must not
import code that asks Slurm.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import damaged_file, read_table
from reward_ablation.analysis.study_file import ALL_ARMS
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, columns

#: Costs of a run. Equal studies differ in these columns, for example if a run was interrupted. So only the CSV file has
#: these columns, and the Parquet files of equal studies stay equal.
OF_COST = (
    (COUNT, "attempts interrupted steps_lost"),
    (COUNT, "judge_requests judge_unanswered judge_prompt_tokens judge_completion_tokens"),
    (COUNT, "metric_requests metric_unanswered metric_prompt_tokens metric_completion_tokens"),
    (NUMBER, "wall_seconds seconds_lost gpu_hours gpu_hours_lost gpu_hours_of_jobs gpu_hours_accounted"),
    (NUMBER, "cpu_hours cpu_hours_of_jobs cpu_hours_accounted"),
    (NUMBER, "evaluation_wall_hours evaluation_gpu_hours evaluation_cpu_hours scoring_wall_hours scoring_gpu_hours"),
)
COST = columns(*OF_COST).names

#: Columns of the table `runs` that are summed by arm: counts, and times by the names that their sums in hours have.
JUDGE = [name for name in COST if name.startswith("judge_")]
METRIC = [name for name in COST if name.startswith("metric_")]
COUNTS = ["steps", "attempts", "interrupted", "steps_lost", *JUDGE, *METRIC]
TIMES = {
    "wall_hours": "wall_seconds",
    "wall_hours_lost": "seconds_lost",
    **{name: name for name in COST if name.startswith(("gpu_hours", "cpu_hours", "evaluation_", "scoring_"))},
}

SCHEMAS = {
    "runs": columns((TEXT, "arm key"), (COUNT, "seed steps"), *OF_COST, (TEXT, "code hardware packages")),
    "cost": columns((TEXT, "arm"), (COUNT, f"runs {' '.join(COUNTS)}"), (NUMBER, " ".join(TIMES))),
}

#: Clocks of the hours in a column, by the end of the column's name.
CLOCKS = {"": "their own clocks", "_of_jobs": "the clocks of their Slurm jobs", "_accounted": "Slurm's accounting"}


def read_cost(path: Path) -> pd.DataFrame:
    """Read the table `cost`. Raises StudyError if the file is missing or damaged."""
    return check_complete(read_table(path), path)


def check_complete(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the table if it has just these columns and ends with the row of all arms. Otherwise raise StudyError."""
    if list(table.columns) != SCHEMAS["cost"].names or ALL_ARMS not in table["arm"].tail(1).tolist():
        raise damaged_file(path, "columns or rows are missing")
    return table


def sentence(total: pd.Series) -> str:
    """Cost of all runs in words, from the last row of the table `cost`; GPU hours if GPUs were used, else CPU hours."""
    unit = "gpu" if total["gpu_hours"] > 0 else "cpu"
    hours = {clock: total[f"{unit}_hours{ending}"] for ending, clock in CLOCKS.items()}
    by_clock = ", ".join(f"{hours_text(value)} by {clock}" for clock, value in hours.items() if value >= 0)
    runs = "1 run" if total["runs"] == 1 else f"{total['runs']} runs"
    if not total["wall_hours"] >= 0:  # imported runs
        return f"hours of {runs} are not known"
    took = f"{runs} took {hours_text(total['wall_hours'])} hours"
    took += f"; {unit.upper()} hours: {by_clock}" if by_clock else ""
    requests = _requests(total, "judge", "requests to judges") + _requests(total, "metric", "requests of metrics")
    return f"{took}; steps that were trained twice: {total['steps_lost']}{requests}"


def _requests(total: pd.Series, whose: str, what: str) -> str:
    """Number of requests to endpoints and of their tokens, after a semicolon; empty without requests."""
    tokens = total[f"{whose}_prompt_tokens"] + total[f"{whose}_completion_tokens"]
    requests = total[f"{whose}_requests"]
    return f"; {what}: {requests:,}, with {tokens:,} tokens" if requests else ""


def hours_text(value: float) -> str:
    """A number of hours: three decimal places below 1, two below 1000, otherwise none."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"
