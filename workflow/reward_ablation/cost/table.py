"""Columns of the tables of runs and of costs; table cost as other stages read it, and its sentence."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import damaged_file, read_table
from reward_ablation.analysis.study_file import ALL_ARMS
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, columns

#: What a run cost. Equal studies differ in these columns, for example where a run was interrupted. So only the CSV file
#: has the columns, and the Parquet files stay equal.
OF_COST = (
    (COUNT, "attempts interrupted steps_lost"),
    (COUNT, "judge_requests judge_unanswered judge_prompt_tokens judge_completion_tokens"),
    (COUNT, "metric_requests metric_unanswered metric_prompt_tokens metric_completion_tokens"),
    (NUMBER, "wall_seconds seconds_lost gpu_hours gpu_hours_lost gpu_hours_of_jobs gpu_hours_accounted"),
    (NUMBER, "cpu_hours cpu_hours_of_jobs cpu_hours_accounted"),
    (NUMBER, "evaluation_wall_hours evaluation_gpu_hours evaluation_cpu_hours scoring_wall_hours scoring_gpu_hours"),
)
COST = columns(*OF_COST).names

#: Columns of the table of runs that are summed by arm: numbers, and times by their names in hours.
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

#: Whose hours a column has, by the end of its name.
CLOCKS = {"": "their own clocks", "_of_jobs": "the clocks of their Slurm jobs", "_accounted": "Slurm's accounting"}


def read_cost(path: Path) -> pd.DataFrame:
    """Read the table; a StudyError if the file is missing or damaged."""
    return complete(read_table(path), path)


def complete(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table, if it has all columns and ends with the row of all arms; else a StudyError."""
    if list(table.columns) != SCHEMAS["cost"].names or ALL_ARMS not in table["arm"].tail(1).tolist():
        raise damaged_file(path, "columns or rows are missing")
    return table


def sentence(total: pd.Series) -> str:
    """What all runs cost, in the unit that the study is paid in."""
    unit = "gpu" if total["gpu_hours"] > 0 else "cpu"
    hours = {clock: total[f"{unit}_hours{ending}"] for ending, clock in CLOCKS.items()}
    told = ", ".join(f"{hours_text(value)} by {clock}" for clock, value in hours.items() if value >= 0)
    runs = "1 run" if total["runs"] == 1 else f"{total['runs']} runs"
    took = f"{runs} took {hours_text(total['wall_hours'])} hours" + (f"; {unit.upper()} hours: {told}" if told else "")
    judged = _requests(total, "judge", "requests to judges") + _requests(total, "metric", "requests of metrics")
    return f"{took}; steps that were trained twice: {total['steps_lost']}{judged}"


def _requests(total: pd.Series, whose: str, what: str) -> str:
    """Requests to endpoints and their tokens, behind a semicolon; empty without any."""
    tokens = total[f"{whose}_prompt_tokens"] + total[f"{whose}_completion_tokens"]
    requests = total[f"{whose}_requests"]
    return f"; {what}: {requests:,}, with {tokens:,} tokens" if requests else ""


def hours_text(value: float) -> str:
    """A number of hours, with four digits after the point where the number is small."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value >= 1 else f"{value:.4f}"
