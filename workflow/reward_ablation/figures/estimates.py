"""Estimates with intervals: arms as points from top to bottom, beside their weights, and forest plots of effects.

The modules of single figures call it (`evaluation`, `gradients`, `cost`), and `book` for its title page.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, panels
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.few_arms import draw_others_at, draw_others_in_row, others_note, rows_of_others
from reward_ablation.figures.style import (
    BASE_COLOUR,
    Look,
    arm_looks,
    beside,
    draw_points,
    legend_below,
    round_ticks,
    rows_of_panels,
    wrapped,
)

#: Most characters in a line of an arm's name beside its row, and of a panel's title, by the panels side by side.
NAME_WIDTH, PANEL_TITLE = {2: 30, 1: 18}, {2: 90, 1: 38}

#: Style of the point of a row.
POINT: dict[str, Any] = {"markersize": 4.5, "capsize": 1.5, "elinewidth": 1.1}

#: Meaning of the mark that `draw_flag` draws.
FLAG_NOTE = " †: the seeds of an arm differ more than those of the other arms."

#: Width of the points of all arms at one position of the x axis; positions are 1 apart.
SPREAD = 0.7

#: Width in inches of a component's column in the matrix: four digits fit.
COLUMN_WIDTH = 0.42

#: Longest interval that an axis makes room for, in lengths of the usual interval. Longer ones end in an arrow.
MOST_LENGTHS = 10

#: Columns of an effect that are drawn.
NUMBERS = ["estimate", "low", "high"]


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
    """Draw a position on the x axis for each of `kinds` in the column `by`, the points of the arms side by side."""
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
    """Give an x axis of shares a range of at least 0.1, and outside 0 to 1 only the room that a point needs."""
    if metrics_of_study(study).limits(metric) != SHARE:
        return
    low, high = axes.get_xlim()
    spare = max(0.0, 0.1 - (high - low)) / 2
    low, high = low - spare, high + spare
    room = 0.04 * (high - low)
    shift = max(0.0, -room - low) - max(0.0, high - 1 - room)
    axes.set_xlim(low + shift, high + shift)


def shown_metrics(study: StudyFile) -> dict[str, str]:
    """Metrics with a panel each in a row, with their labels: in a column of a paper the main one alone."""
    every = panels(study)
    return dict(list(every.items())[: beside(len(every))])


def panel_title(axes: Axes, text: str) -> None:
    """Put the title of a row of panels above its first one."""
    axes.set_title(wrapped(text, PANEL_TITLE[beside(2)]), loc="left")


def name_rows(axes: Axes, arms: list[str]) -> None:
    """Write the arms' names beside their rows."""
    axes.set_yticks(range(len(arms)), [wrapped(arm, NAME_WIDTH[beside(2)]) for arm in arms])


def component_names(study: StudyFile) -> list[str]:
    """Names above the columns of the matrix, in three lines at most: more would run into the next column."""
    broken = ([wrapped(name, width) for name in study.components] for width in count(18))
    return next(names for names in broken if all(name.count("\n") < 3 for name in names))


def weight_matrix(axes: Axes, study: StudyFile, arms: list[str]) -> None:
    """Draw the weights of `arms` in shades of the study's largest; a dash for what does not score the arm."""
    weights = {arm.name: arm.weights for arm in study.arms}
    no_weights = dict.fromkeys(study.components, 0.0)  # the row of the other arms
    matrix = np.array([[weights.get(arm, no_weights)[component] for component in study.components] for arm in arms])
    scored = study.scored_by_arm
    shades = np.abs(matrix) / (np.abs(matrix).max() or 1.0)
    edges = [np.arange(size + 1) - 0.5 for size in matrix.shape]
    axes.pcolormesh(edges[1], edges[0], shades, cmap="Greys", vmin=0, vmax=1.4, edgecolors="white", linewidth=1.5)
    for (row, column), weight in np.ndenumerate(matrix):
        if arms[row] not in weights:
            continue
        ink = "#707070" if weight == 0 else "white" if shades[row, column] > 0.85 else "black"
        written = f"{weight:.3g}".replace("-", "−") if study.components[column] in scored[arms[row]] else "–"
        axes.text(column, row, written, ha="center", va="center", fontsize=7, color=ink)
    name_rows(axes, arms)
    axes.set_xticks(range(len(study.components)), component_names(study), rotation=90)
    axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(-0.5, len(study.components) - 0.5)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def over_words(interval: pd.Series) -> str:
    """Say what the intervals of a gradient table are over, from its column `interval`."""
    kinds = set(interval.dropna())
    if not kinds:
        return "no interval: one seed with few steps"
    words = {"seeds": "Student's t over seeds", "steps": "block bootstrap over the steps of one seed"}
    return " or ".join(text for kind, text in words.items() if kind in kinds)


def row_height(arms: list[str]) -> float:
    """Height in inches of a row, such that the longest of these names fits."""
    lines = max(wrapped(arm, NAME_WIDTH[beside(2)]).count("\n") + 1 for arm in arms)
    return max(0.22, 0.12 * lines + 0.06)


def datasets_and_modes(table: pd.DataFrame, study: StudyFile) -> list[tuple[str, str, int]]:
    """Data sets and modes that have rows, each with its number of questions, the primary question's first."""
    questions = table.groupby(["dataset", "mode"])["questions"].max()
    return [(*kind, int(questions[kind])) for kind in study.datasets_and_modes if kind in questions.index]


def dot_handles(filled: str, hollow: str) -> list[Artist]:
    """Legend entries of filled and of hollow points."""
    black: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 4.5, "linestyle": "none"}
    return [
        Line2D([], [], **black, label=f"filled: {filled}"),
        Line2D([], [], **black, markerfacecolor="white", label=f"hollow: {hollow}"),
    ]


def base_legend(figure: Figure, drawn_rows: pd.DataFrame, study: StudyFile, before: str = "") -> None:
    """Put the legend of `draw_rows` below the panels. Its note begins with `before`, which says the arms' order."""
    handles: list[Artist] = [
        Line2D([], [], color=BASE_COLOUR, linestyle="dashed", label="base model"),
        Patch(facecolor=BASE_COLOUR, alpha=0.2, label="interval of the base model"),
    ][: 2 * study.has_base]
    others = others_note(study, in_this_order=not before)
    legend_below(figure, handles, before + base_note(study) + flag_note(drawn_rows) + others)


def interval_note(study: StudyFile, of_all: str = "", detail: str = "", shared: int | None = None) -> str:
    """What means and intervals are over; `of_all`, `detail`: with several seeds; `shared`: seeds of effects."""
    level, counted_seeds, that = f"{100 * study.confidence:g} % intervals", study.counted_seeds, ""
    fewest, most = study.seed_counts
    if shared is not None and (fewest, most) != (shared, shared):
        that = " that all arms of the effects have"
        fewest, most, counted_seeds = shared, shared, f"the {shared} seeds{that}"
    if most == 1:
        alone = "over questions only; nothing is known of other seeds"
        return f"Points: the one seed{that}. Bars: {level} {alone}."
    alone = "; for an arm with one seed: over questions only" if fewest == 1 else ""
    over = f"over seeds and questions{alone}{detail}"
    return f"Points: mean over {counted_seeds}{of_all}. Bars: {level} {over}."


def base_note(study: StudyFile) -> str:
    """Say what points and bars are over, in a figure that also shows the base model."""
    return interval_note(study, detail="; base model: over questions" * study.has_base)


class Row(NamedTuple):
    """A row of a forest plot: one effect if it has a look, else a heading, or the distribution of `others`."""

    label: str
    look: Look | None = None
    key: str = ""  # of the row's effect
    others: tuple[str, ...] = ()  # keys of the effects whose distribution the row shows


def forest_panels(
    table: pd.DataFrame,
    study: StudyFile,
    rows: Sequence[Row],
    label: str,
    family: str,
    before: str = "",
    primary: tuple[str, str, str] | None = None,
) -> Figure:
    """Make a figure with a row of panels per data set and mode, and a column of panels per metric.

    `table` has dataset, mode, metric, key, questions, flagged_arms, p_holm and `NUMBERS`, and arm, else seeds. `family`
    is what Holm's correction is over, `before` begins the note; `primary` is the panel that is named so.
    """
    names = [row.label for row in rows]
    of_kinds = datasets_and_modes(table, study)
    metrics = shown_metrics(study)
    figure, grid = rows_of_panels(len(of_kinds), len(metrics), row_height(names) * len(rows) + 0.75, sharey="row")
    level = level_of(study.confidence)
    for of_row, (dataset, mode, questions) in zip(grid, of_kinds, strict=True):
        of_kind = table[(table["dataset"] == dataset) & (table["mode"] == mode)]
        for panel, (metric, name) in zip(of_row, metrics.items(), strict=True):
            panel.set_xlim(limits(table[table["metric"] == metric]))
            effects = of_kind[of_kind["metric"] == metric].set_index("key")
            forest(panel, rows, effects, effects["p_holm"] < level)
            panel.set_xlabel(f"{label}\n{name}" + (" (primary)" if primary == (dataset, mode, metric) else ""))
            panel.tick_params(axis="y", length=0)
        name_forest(of_row[0], rows)
        panel_title(of_row[0], f"{dataset}, {mode}: {questions:,} questions")
    forest_legend(figure, table[table["metric"].isin(metrics)], study, family, before)
    return figure


def name_forest(axes: Axes, rows: Sequence[Row]) -> None:
    """Write the labels beside the rows, headings in bold."""
    name_rows(axes, [row.label for row in rows])
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if row.look is None and not row.others else "normal")


def forest_legend(
    figure: Figure,
    table: pd.DataFrame,
    study: StudyFile,
    family: str,
    before: str = "",
    after: str = "",
    detail: str = ", uncorrected",
) -> None:
    """Put below a forest plot what it shows; `after` follows the words on points and bars, `detail` those on bars."""
    shared = None if "arm" in table else int(table["seeds"].min())  # effects have one number of seeds
    handles = dot_handles(f"Holm p < {level_of(study.confidence):g}", "not significant, or no test")
    points = interval_note(study, of_all=" and all questions", detail=detail, shared=shared)
    marks = arrow_note(figure) + flag_note(table) + others_note(study)
    legend_below(figure, handles, f"{before}{points}{after} Holm's correction: over {family}.{marks}")


def arrow_note(figure: Figure) -> str:
    """Say what the arrows of a forest plot mean; empty where there is none."""
    lines = (line for panel in figure.axes for line in panel.get_lines())
    return " Arrows: the interval goes on." * any(line.get_marker() in ("<", ">") for line in lines)


def limits(effects: pd.DataFrame, value: float = 0.0) -> tuple[float, float]:
    """Ends of an axis that shows a value, all estimates, and all intervals but those much longer than the others."""
    estimates, *intervals = effects[["estimate", "low", "high"]].to_numpy(float).T
    length = intervals[1] - intervals[0]
    usual = np.nanmedian(length) if np.isfinite(length).any() else 0.0
    shown = ~(length > MOST_LENGTHS * usual)
    ends = np.concatenate([estimates, intervals[0][shown], intervals[1][shown], [value]])
    low, high = np.nanmin(ends), np.nanmax(ends)
    room = 0.06 * (high - low) or 0.1
    return float(low - room), float(high + room)


def forest(axes: Axes, rows: Sequence[Row], effects: pd.DataFrame, filled: pd.Series, value: float = 0.0) -> None:
    """Draw effects by the rows' keys, filled or hollow, within the axis's limits, and a line at `value`."""
    axes.axvline(value, color="black", linewidth=0.8, zorder=1)
    flagged = set(effects.index[effects["flagged_arms"].notna()])
    numbers = dict(zip(effects.index, effects[NUMBERS].to_numpy(float), strict=True))
    for row_number, row in enumerate(rows):
        if row.others:
            draw_others_in_row(axes, effects["estimate"].reindex(row.others), row_number)
        if row.look is None:
            continue
        estimate, low, high = numbers.get(row.key, [np.nan] * len(NUMBERS))
        if np.isnan(estimate):
            beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 7, "color": "#808080"}
            axes.annotate("no estimate", (value, row_number), (4, 0), **beside)
            continue
        ends = None if np.isnan([low, high]).any() else tuple(np.clip((low, high), *axes.get_xlim()))
        for end, inside, arrow in zip((low, high), ends or (), "<>", strict=False):  # no interval: no arrow
            if end != inside:  # the interval goes on beyond the axis
                axes.plot(inside, row_number, arrow, color=row.look.colour, markersize=4, clip_on=False)
        draw_points(
            axes, row.look, estimate, row_number, across=ends, hollow=not filled[row.key], label=row.label, **POINT
        )
        if row.key in flagged:
            draw_flag(axes, estimate, row_number)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    round_ticks(axes.xaxis, 5)
