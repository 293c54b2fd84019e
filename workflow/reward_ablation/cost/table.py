"""Table cost as other stages read it, and its sentence. Nothing here asks Slurm."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import damaged_file, read_table
from reward_ablation.analysis.study_file import ALL_ARMS
from reward_ablation.cost.schemas import SCHEMAS

#: Whose hours a column has, by the end of its name.
CLOCKS = {"": "their own clocks", "_of_jobs": "the clocks of their Slurm jobs", "_accounted": "Slurm's accounting"}


def read_cost(path: Path) -> pd.DataFrame:
    """Read the table.

    Raises
    ------
    StudyError
        The file is missing or damaged.
    """
    return complete(read_table(path), path)


def complete(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table, if it has all columns and ends by the row of all arms.

    Raises
    ------
    StudyError
        A part of the table is missing.
    """
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
    return f"{took}; steps that were trained twice: {total['steps_lost']}"


def hours_text(value: float) -> str:
    """A number of hours, with four digits after the point where the number is small."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value >= 1 else f"{value:.4f}"
