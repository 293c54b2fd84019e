"""Estimates with intervals: arms as points from top to bottom, the base model as a line with a band."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.few_arms import (
    draw_others_at,
    draw_others_in_row,
    others_note,
    rows_of_others,
)
from reward_ablation.figures.style import (
    BASE_COLOUR,
    arm_looks,
    draw_points,
    legend_below,
    round_ticks,
    wrapped,
)

#: Most characters in a line of an arm's name beside its row.
NAME_WIDTH = 30

#: Style of the point of a row.
POINT: dict[str, Any] = {"markersize": 4.5, "capsize": 1.5, "elinewidth": 1.1}

#: Meaning of the mark that `draw_flag` draws.
FLAG_NOTE = " †: the seeds of an arm differ more than those of the other arms."

#: Width of the points of all arms at one position of the x axis; positions are 1 apart.
SPREAD = 0.7


def select(evaluation_by_arm: pd.DataFrame, dataset: str, mode: str, metric: str) -> pd.DataFrame:
    """Estimates of all arms and the base model for one data set, mode and metric, by arm."""
    table = evaluation_by_arm
    rows = (table["dataset"] == dataset) & (table["mode"] == mode) & (table["metric"] == metric)
    return table[rows].set_index("arm")


def interval(rows: pd.DataFrame, arm: str) -> tuple[float, float, float]:
    """Estimate of an arm and the ends of its interval."""
    estimate, low, high = rows.loc[[arm], ["estimate", "low", "high"]].to_numpy(dtype=float)[0]
    return estimate, low, high


def draw_rows(axes: Axes, rows: pd.DataFrame, study: StudyFile, arms: list[str]) -> None:
    """Draw estimates with intervals, one arm per row from top to bottom, and behind them those of the base model."""
    if study.has_base:
        estimate, low, high = interval(rows, "base")
        axes.axvspan(low, high, color=BASE_COLOUR, alpha=0.2, linewidth=0, zorder=0.5)
        axes.axvline(estimate, color=BASE_COLOUR, linestyle="dashed", zorder=0.6)
    look, flagged = arm_looks(study), set(rows.index[rows["flagged_arms"].notna()])
    for row_number, arm in enumerate(arms):
        if arm not in look:
            draw_others_in_row(axes, rows_of_others(rows.reset_index(), study)["estimate"], row_number)
            continue
        estimate, *ends = interval(rows, arm)
        draw_points(axes, look[arm], estimate, row_number, across=ends, label=arm, **POINT)
        if arm in flagged:
            draw_flag(axes, estimate, row_number)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    round_ticks(axes.xaxis, 4)


def draw_flag(axes: Axes, x: float, y: float) -> None:
    """Mark the point of a flagged arm: one whose seeds differ more than those of the other arms."""
    axes.annotate("†", (x, y), (4, 2), textcoords="offset points", fontsize=7)


def flag_note(table: pd.DataFrame) -> str:
    """Say what the mark of `draw_flag` means; empty if no row of the table has a flagged arm."""
    return FLAG_NOTE if table["flagged_arms"].notna().any() else ""


def draw_side_by_side(
    axes: Axes, table: pd.DataFrame, study: StudyFile, arms: list[str], by: str, kinds: list[str]
) -> None:
    """Draw a position on the x axis for each of `kinds`, with the points of the arms side by side.

    The column `by` of the table has the kind of each estimate.
    """
    look = arm_looks(study)
    size = 3.5 if len(arms) <= 4 else 2.8
    hidden = rows_of_others(table, study)
    if len(hidden):
        of_kinds = [hidden.loc[hidden[by] == kind, "estimate"].to_numpy(dtype=float) for kind in kinds]
        draw_others_at(axes, of_kinds, SPREAD + 0.15)
    for arm_number, arm in enumerate(arms):
        rows = table[table["arm"] == arm].set_index(by).reindex(kinds)
        values, *ends = rows[["estimate", "low", "high"]].to_numpy(dtype=float).T
        x = np.arange(len(kinds)) + SPREAD * ((arm_number + 0.5) / len(arms) - 0.5)
        style: dict[str, Any] = {"markersize": size, "linestyle": "none", "elinewidth": 1.0}
        draw_points(axes, look[arm], x, values, along=ends, label=arm, **style)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(kinds) - 0.5)


def share_axis(axes: Axes, study: StudyFile, metric: str) -> None:
    """Give an x axis of shares a range of at least 0.1, and outside 0 to 1 only the room that a point needs.

    The axis of a metric that is not a share stays as it is.
    """
    if metrics_of_study(study).limits(metric) != SHARE:
        return
    low, high = axes.get_xlim()
    spare = max(0.0, 0.1 - (high - low)) / 2
    low, high = low - spare, high + spare
    room = 0.04 * (high - low)
    shift = max(0.0, -room - low) - max(0.0, high - 1 - room)
    axes.set_xlim(low + shift, high + shift)


def name_rows(axes: Axes, arms: list[str]) -> None:
    """Write the arms' names beside their rows."""
    axes.set_yticks(range(len(arms)), [wrapped(arm, NAME_WIDTH) for arm in arms])


def over_words(interval: pd.Series) -> str:
    """Say what the intervals of a gradient table are over, from its column `interval`."""
    kinds = set(interval.dropna())
    if not kinds:
        return "no interval: one seed with few steps"
    words = {"seeds": "Student's t over seeds", "steps": "block bootstrap over the steps of one seed"}
    return " or ".join(text for kind, text in words.items() if kind in kinds)


def row_height(arms: list[str]) -> float:
    """Height in inches of a row, such that the longest of these names fits."""
    lines = max(wrapped(arm, NAME_WIDTH).count("\n") + 1 for arm in arms)
    return max(0.22, 0.12 * lines + 0.06)


def datasets_and_modes(table: pd.DataFrame, study: StudyFile) -> list[tuple[str, str, int]]:
    """Data sets and modes that have rows, each with its number of questions, in the study's order."""
    questions = table.groupby(["dataset", "mode"])["questions"].max()
    every = [(dataset, mode) for dataset in study.datasets for mode in ("greedy", "sampled")]
    return [(*kind, int(questions[kind])) for kind in every if kind in questions.index]


def dot_handles(filled: str, hollow: str) -> list[Artist]:
    """Legend entries of filled and of hollow points."""
    black: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 4.5, "linestyle": "none"}
    return [
        Line2D([], [], **black, label=f"filled: {filled}"),
        Line2D([], [], **black, markerfacecolor="white", label=f"hollow: {hollow}"),
    ]


def base_legend(figure: Figure, evaluation_by_arm: pd.DataFrame, study: StudyFile, before: str = "") -> None:
    """Put the legend of `draw_rows` below the panels. Its note begins with `before`."""
    handles: list[Artist] = [
        Line2D([], [], color=BASE_COLOUR, linestyle="dashed", label="base model"),
        Patch(facecolor=BASE_COLOUR, alpha=0.2, label="interval of the base model"),
    ][: 2 * study.has_base]
    legend_below(figure, handles, before + base_note(study) + flag_note(evaluation_by_arm) + others_note(study))


def interval_note(
    study: StudyFile, means: str = "Points", intervals: str = "Bars", of_all: str = "", detail: str = ""
) -> str:
    """Say what the means and the intervals of a figure are over.

    `means` and `intervals` name the marks that show them. `of_all` and `detail` are additions on means and on
    intervals, if the study has several seeds.
    """
    fewest, most = study.seed_counts
    level = f"{100 * study.confidence:g} % intervals"
    if most == 1:
        return f"{means}: the one seed. {intervals}: {level} over questions only; nothing is known of other seeds."
    alone = "; for an arm with one seed: over questions only" if fewest == 1 else ""
    over = f"over seeds and questions{alone}{detail}"
    return f"{means}: mean over {study.counted_seeds}{of_all}. {intervals}: {level} {over}."


def base_note(study: StudyFile) -> str:
    """Say what points and bars are over, in a figure that also shows the base model."""
    return interval_note(study, detail="; base model: over questions" * study.has_base)
