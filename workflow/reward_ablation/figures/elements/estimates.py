"""Points with intervals: arms from top to bottom, the base model as a line with a band."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.few_arms import (
    draw_others_at,
    draw_others_in_row,
    others_note,
    rows_of_others,
)
from reward_ablation.figures.elements.style import BASE_COLOUR, draw_points, legend_below, looks, round_ticks, wrapped

#: The metric that has lenient accuracy beside it.
STRICT = "accuracy_strict"

#: Longest line of an arm's name beside its row.
NAME_WIDTH = 30

#: How the point of a row is drawn.
POINT: dict[str, Any] = {"markersize": 4.5, "capsize": 1.5, "elinewidth": 1.1}

#: What the mark of `draw_flag` means.
FLAG_NOTE = " †: the seeds of an arm differ more than those of the other arms."

#: Share of the room of a kind of estimate that the points of its arms take.
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


def draw_rows(
    axes: Axes, rows: pd.DataFrame, study: StudyFile, arms: list[str], hollow: bool = False, shift: float = 0.0
) -> None:
    """Draw estimates and intervals, one arm a row from top to bottom, and those of the base model behind them.

    A second metric in the same panel has hollow points, and its rows are lower by `shift`.
    """
    estimate, low, high = interval(rows, "base")
    axes.axvspan(low, high, color=BASE_COLOUR, alpha=0.1 if hollow else 0.2, linewidth=0, zorder=0.5)
    axes.axvline(estimate, color=BASE_COLOUR, linestyle="dotted" if hollow else "dashed", zorder=0.6)
    look, flagged = looks(study), set(rows.index[rows["flagged_arms"].notna()])
    for place, arm in enumerate(arms):
        if arm not in look:
            if not hollow:
                draw_others_in_row(axes, rows_of_others(rows.reset_index(), study)["estimate"], place)
            continue
        estimate, *ends = interval(rows, arm)
        draw_points(axes, look[arm], estimate, place + shift, across=ends, hollow=hollow, label=arm, **POINT)
        if arm in flagged:
            draw_flag(axes, estimate, place + shift)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    round_ticks(axes.xaxis, 4)


def draw_flag(axes: Axes, x: float, y: float) -> None:
    """Mark a point whose arm has seeds that differ more than those of the other arms."""
    axes.annotate("†", (x, y), (4, 2), textcoords="offset points", fontsize=7)


def flag_note(table: pd.DataFrame) -> str:
    """Say what the mark of `draw_flag` means, where a row of the table has flagged arms; empty elsewhere."""
    return FLAG_NOTE if table["flagged_arms"].notna().any() else ""


def draw_main(
    axes: Axes, evaluation_by_arm: pd.DataFrame, study: StudyFile, dataset: str, mode: str, arms: list[str]
) -> None:
    """Draw the main metric filled; below strict accuracy also lenient accuracy, hollow."""
    if study.main_metric != STRICT:
        draw_rows(axes, select(evaluation_by_arm, dataset, mode, study.main_metric), study, arms)
        return
    lenient = select(evaluation_by_arm, dataset, mode, "accuracy_lenient")
    strict = select(evaluation_by_arm, dataset, mode, STRICT)
    draw_rows(axes, lenient, study, arms, hollow=True, shift=0.17)
    draw_rows(axes, strict, study, arms, shift=-0.17)


def draw_side_by_side(
    axes: Axes, table: pd.DataFrame, study: StudyFile, arms: list[str], by: str, kinds: list[str]
) -> None:
    """Draw kinds of estimates, told by column `by`, from left to right: at each the points of the arms side by side."""
    look = looks(study)
    size = 3.5 if len(arms) <= 4 else 2.8
    hidden = rows_of_others(table, study)
    if len(hidden):
        at = [hidden.loc[hidden[by] == kind, "estimate"].to_numpy(dtype=float) for kind in kinds]
        draw_others_at(axes, at, SPREAD + 0.15)
    for place, arm in enumerate(arms):
        rows = table[table["arm"] == arm].set_index(by).reindex(kinds)
        values, *ends = rows[["estimate", "low", "high"]].to_numpy(dtype=float).T
        x = np.arange(len(kinds)) + SPREAD * ((place + 0.5) / len(arms) - 0.5)
        style: dict[str, Any] = {"markersize": size, "linestyle": "none", "elinewidth": 1.0}
        draw_points(axes, look[arm], x, values, along=ends, label=arm, **style)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(kinds) - 0.5)


def main_label(study: StudyFile) -> str:
    """Name of the axis of `draw_main`."""
    return "accuracy" if study.main_metric == STRICT else name_of(study.main_metric)


def share_axis(axes: Axes, study: StudyFile, metric: str) -> None:
    """Give an axis of shares a width of at least a tenth, and no more room outside 0 to 1 than a point needs."""
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


def row_height(arms: list[str]) -> float:
    """Inches that a row needs for its name."""
    lines = max(wrapped(arm, NAME_WIDTH).count("\n") + 1 for arm in arms)
    return max(0.22, 0.12 * lines + 0.06)


def kinds(table: pd.DataFrame, study: StudyFile) -> list[tuple[str, str, int]]:
    """Every data set and mode that has rows, with its number of questions, in the study's order."""
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


def main_legend(figure: Figure, evaluation_by_arm: pd.DataFrame, study: StudyFile, before: str = "") -> None:
    """Put the legend of `draw_main` and the base model below the panels; the note begins with `before`."""
    handles: list[Artist] = [
        Line2D([], [], color=BASE_COLOUR, linestyle="dashed", label="base model"),
        Patch(facecolor=BASE_COLOUR, alpha=0.2, label="interval of the base model"),
    ]
    if study.main_metric == STRICT:
        lenient = Line2D([], [], color=BASE_COLOUR, linestyle="dotted", label="base model, lenient accuracy")
        handles = [*dot_handles("strict accuracy", "lenient accuracy"), *handles, lenient]
    legend_below(figure, handles, before + base_note(study) + flag_note(evaluation_by_arm) + others_note(study))


def interval_note(
    study: StudyFile, means: str = "Points", intervals: str = "Bars", of_all: str = "", detail: str = ""
) -> str:
    """Say what shows means and what intervals; several seeds: more of means (`of_all`) and of intervals (`detail`)."""
    fewest, most = study.seed_counts
    level = f"{100 * study.confidence:g} % intervals"
    if most == 1:
        return f"{means}: the one seed. {intervals}: {level} over questions only; nothing is known of other seeds."
    alone = "; of an arm with one seed: over questions only" if fewest == 1 else ""
    over = f"over seeds and questions{alone}{detail}"
    return f"{means}: mean over {study.counted_seeds}{of_all}. {intervals}: {level} {over}."


def base_note(study: StudyFile) -> str:
    """Say what points and intervals are where the base model is shown, too."""
    return interval_note(study, detail="; base model: over questions")
