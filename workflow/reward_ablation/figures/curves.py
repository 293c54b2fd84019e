"""Curves over steps: a line per arm, and with several seeds a thin line per seed.

The modules `training`, `evaluation` and `gradients` of figures call it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.few_arms import draw_band_of_others, others_note, rows_of_others
from reward_ablation.figures.style import (
    arm_handles,
    arm_looks,
    beside,
    figure_width,
    legend_below,
    panel_grid,
    round_ticks,
    rows_of_panels,
    wrapped,
)

#: Most points of a curve. With more steps, neighbouring steps are averaged: otherwise, lines would run into each other.
MOST_POINTS = 120

#: Most arms in a panel, and most groups into which the arms are split. With many arms the second limit wins.
MOST_ARMS, MOST_GROUPS = 6, 3

#: Most characters in a line of a panel's title, for the narrowest panels: a third of a figure's width.
TITLE_WIDTH = 26

#: Style of the line of a single seed.
OF_SEED: dict[str, Any] = {"linewidth": 0.5, "alpha": 0.6, "zorder": 1.5, "label": "_seed"}

#: The panels of one quantity, each with the arms that it shows.
Row = list[tuple[Axes, list[str]]]


def arm_groups(study: StudyFile) -> list[list[str]]:
    """Split the arms, in their order, into groups of at most `MOST_ARMS`, or else into `MOST_GROUPS` groups."""
    names = study.arm_names
    size = ceil(len(names) / min(MOST_GROUPS, ceil(len(names) / MOST_ARMS)))
    return [names[first : first + size] for first in range(0, len(names), size)]


def numbers_of(arms: list[str], study: StudyFile) -> str:
    """Numbers of neighbouring arms in the study, such as `arms 1 to 6`, in one piece."""
    return f"arms\u00a0{study.arm_names.index(arms[0]) + 1}\u00a0to\u00a0{study.arm_names.index(arms[-1]) + 1}"


def curve_panels(
    study: StudyFile, titles: list[str], labels: str | list[str], height: float
) -> tuple[Figure, list[Row]]:
    """Make a figure with a row of panels for each quantity, one panel for each group of arms; heights in inches."""
    groups, quantities = arm_groups(study), len(titles)
    if len(groups) > 1:
        figure, grid = rows_of_panels(quantities, len(groups), height, sharex=True, sharey="row")
    else:
        columns = beside(2 if quantities == 4 else min(quantities, 3))
        figure = Figure(figsize=(figure_width(), ceil(quantities / columns) * height + 0.4))
        grid = [[panel] for panel in panel_grid(figure, quantities, columns)]
    rows = [list(zip(panels, groups, strict=True)) for panels in grid]
    for row, name, label in zip(
        rows, titles, [labels] * quantities if isinstance(labels, str) else labels, strict=True
    ):
        for panel, _ in row[:: beside(len(row))]:
            panel.set_ylabel(label)
        for panel, arms in row:
            shown_arms = "" if len(arms) == len(study.arms) else f", {numbers_of(arms, study)}"
            panel.set_title(wrapped((name + shown_arms).removeprefix(", "), TITLE_WIDTH), loc="left")
    return figure, rows


def add_arm_legend(figure: Figure, study: StudyFile, note: str) -> None:
    """Add the legend of the arms below the panels, headed by `note`; several groups of arms have a column each."""
    groups = len(arm_groups(study))
    if groups > 1:
        for panel in figure.axes:
            panel.label_outer()
    legend_below(figure, arm_handles(study), note + others_note(study), most_columns=groups if groups > 1 else 6)


def steps_per_point(steps: pd.Series, most_points: int) -> int:
    """Number of neighbouring measured steps that are averaged in one point of a curve."""
    return max(1, ceil(steps.nunique() / most_points))


def thinned(table: pd.DataFrame, value: str, most_points: int = MOST_POINTS) -> pd.DataFrame:
    """Average neighbouring steps of each arm and seed to at most `most_points` points, at the means of their steps."""
    steps = np.sort(table["step"].unique())
    width = steps_per_point(table["step"], most_points)
    # The remaining steps join the last point: a point of its own, with fewer steps, would be the noisiest.
    point = np.minimum(np.searchsorted(steps, table["step"]) // width, len(steps) // width - 1)
    grouped = table.assign(point=point).groupby(["arm", "seed", "point"], sort=True)
    return grouped[["step", value]].mean().reset_index()


def draw_steps(
    row: Iterable[tuple[Axes, list[str]]],
    table: pd.DataFrame,
    value: str,
    study: StudyFile,
    steps: pd.Series,
    most_points: int = MOST_POINTS,
) -> None:
    """Draw means over seeds, with gaps where all are null, and thin lines of several seeds; `steps` are the x axis.

    Means are at points that all seeds of the arm have: otherwise a line would jump from seed to seed.
    """
    of_seeds = thinned(table, value, most_points).rename(columns={"step": "x", value: "mean"})
    points = of_seeds.groupby(["arm", "point"])
    seeds = of_seeds.groupby("arm")["seed"].nunique()
    curves = points.agg(x=("x", "mean"), mean=("mean", "mean"), seeds=("seed", "size")).reset_index()
    curves = curves[curves["seeds"] == curves["arm"].map(seeds).astype(int)]
    for panel, arms in row:
        draw_curves(panel, curves, study, arms)
        for arm in arms if study.seed_counts[1] > 1 else []:
            for _, of_seed in of_seeds[of_seeds["arm"] == arm].groupby("seed"):
                panel.plot(of_seed["x"], of_seed["mean"], color=arm_looks(study)[arm].colour, **OF_SEED)
        step_axis(panel, steps)


def draw_curves(axes: Axes, curves: pd.DataFrame, study: StudyFile, arms: list[str]) -> None:
    """Draw a line of the columns x and mean for each of `arms`, with about ten markers, shifted from arm to arm."""
    look = arm_looks(study)
    few = len(arms) <= 4
    draw_band_of_others(axes, rows_of_others(curves, study))
    for arm_number, arm in enumerate(arms):
        curve = curves[curves["arm"] == arm].sort_values("x")
        x, mean, colour = curve["x"], curve["mean"], look[arm].colour
        if curve.empty:
            continue
        every = max(1, len(curve) // 10)
        isolated = mean.notna() & mean.shift().isna() & mean.shift(-1).isna()  # no line reaches these points
        axes.plot(
            x,
            mean,
            color=colour,
            linestyle=look[arm].dashes,
            marker=look[arm].marker,
            markevery=sorted({*range(arm_number % every, len(curve), every), *np.flatnonzero(isolated)}),
            linewidth=1.3 if few else 1.0,
            label=arm,
        )


def step_axis(axes: Axes, steps: pd.Series) -> None:
    """Give the x axis the range of all steps, whether they have values or not, with ticks at whole numbers."""
    margin = max(0.5, 0.02 * (steps.max() - steps.min()))
    axes.set_xlim(steps.min() - margin, steps.max() + margin)
    round_ticks(axes.xaxis, 6, integer=True, min_n_ticks=1)
    axes.set_xlabel("optimizer step")


def seeds_note(
    study: StudyFile, table: pd.DataFrame, value: str, most_points: int = MOST_POINTS, of_means: bool = False
) -> str:
    """Say what the lines and points of the column `value` show, in a table with arm, seed and step."""
    lines = "Line: the one seed."
    if study.seed_counts[1] > 1:
        fewest = table.groupby(["arm", "step"], observed=True)["seed"].nunique().groupby("arm", observed=True).min()
        apart = fewest < table.groupby("arm", observed=True)["seed"].nunique()
        where = ", where all seeds of an arm have steps" * bool(apart.any())
        known = ", or over those of them with a value" * bool(table[value].isna().any())
        lines = f"Line: mean over {study.counted_seeds}{where}{known}. Thin lines: single seeds."
    return lines + points_note(table["step"], most_points, of_means)


def points_note(steps: pd.Series, most_points: int, of_means: bool = False) -> str:
    """Say how many steps a point is the mean of; with `of_means`, the table has means of neighbouring steps already."""
    measured = np.sort(steps.unique().astype(int))
    between = int(np.median(np.diff(measured))) if of_means and len(measured) > 1 else 1
    count = between * steps_per_point(steps, most_points)
    what = "what was logged in " if between > 1 else ""
    return "" if count == 1 else f" Each point: mean over {what}{count} neighbouring steps."
