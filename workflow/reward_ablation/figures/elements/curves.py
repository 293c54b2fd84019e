"""Curves over steps or layers: a line per arm, a band for its seeds."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.few_arms import draw_band_of_others, others_note, rows_of_others
from reward_ablation.figures.elements.style import (
    WIDTH,
    arm_handles,
    legend_below,
    looks,
    panel_grid,
    round_ticks,
    wrapped,
)

#: Most points of a curve; beyond, neighbouring steps are averaged, or lines would run into each other.
MOST_POINTS = 120

#: Most arms that share a panel, and most panels that share the arms of a study.
MOST_ARMS, MOST_GROUPS = 6, 3

#: Characters of a title over the narrowest panels, a third of a figure's width.
TITLE_WIDTH = 32

#: The panels of a quantity, each with the arms that it shows.
Row = list[tuple[Axes, list[str]]]


def arm_groups(study: StudyFile) -> list[list[str]]:
    """Split the arms, in their order, into groups that can be told apart in one panel."""
    names = study.arm_names
    size = ceil(len(names) / min(MOST_GROUPS, ceil(len(names) / MOST_ARMS)))
    return [names[first : first + size] for first in range(0, len(names), size)]


def numbers_of(arms: list[str], study: StudyFile) -> str:
    """Numbers of neighbouring arms in the study, such as arms 1 to 6."""
    return f"arms {study.arm_names.index(arms[0]) + 1} to {study.arm_names.index(arms[-1]) + 1}"


def curve_panels(
    study: StudyFile, titles: list[str], labels: str | list[str], height: float
) -> tuple[Figure, list[Row]]:
    """Make a figure with panels for each quantity: one for each group of arms.

    Parameters
    ----------
    titles : list of str
        Name of each quantity.
    labels : str or list of str
        Label of the y axis: one for all quantities, or one for each.
    height : float
        Inches of a row.

    Returns
    -------
    The figure, and the panels of each quantity, which share their y axis. Many groups have a row per quantity; one
    group has at most three quantities in a row.
    """
    groups, quantities = arm_groups(study), len(titles)
    if len(groups) > 1:
        figure = Figure(figsize=(WIDTH, quantities * height + 0.4))
        grid = figure.subplots(quantities, len(groups), squeeze=False, sharex=True, sharey="row").tolist()
    else:
        columns = 2 if quantities == 4 else min(quantities, 3)
        figure = Figure(figsize=(WIDTH, ceil(quantities / columns) * height + 0.4))
        grid = [[panel] for panel in panel_grid(figure, quantities, columns)]
    rows = [list(zip(panels, groups, strict=True)) for panels in grid]
    for row, name, label in zip(
        rows, titles, [labels] * quantities if isinstance(labels, str) else labels, strict=True
    ):
        row[0][0].set_ylabel(label)
        for panel, arms in row:
            panel_title(panel, name, study, arms)
    return figure, rows


def panel_title(axes: Axes, name: str, study: StudyFile, arms: list[str]) -> None:
    """Name a panel's quantity, and its arms where it does not show all."""
    some = "" if len(arms) == len(study.arms) else f", {numbers_of(arms, study)}"
    axes.set_title(wrapped((name + some).removeprefix(", "), TITLE_WIDTH), loc="left")


def finish(figure: Figure, study: StudyFile, note: str, dots: bool = False) -> None:
    """Add the legend of the arms below the panels: a column per group where there are several.

    `dots` says that other arms are drawn as dots.
    """
    groups = len(arm_groups(study))
    if groups > 1:
        for panel in figure.axes:
            panel.label_outer()
    note += others_note(study, dots=dots)
    legend_below(figure, arm_handles(study), note, most_columns=groups if groups > 1 else 6)


def steps_per_point(steps: pd.Series, most_points: int) -> int:
    """Number of neighbouring measured steps that one point of a curve stands for."""
    return max(1, ceil(steps.nunique() / most_points))


def thinned(table: pd.DataFrame, value: str, most_points: int = MOST_POINTS) -> pd.DataFrame:
    """Average neighbouring steps of each arm and seed, so that no curve has more than `most_points` points.

    Returns
    -------
    Columns arm, seed, step, and `value`; the step of a point is the mean of those that it stands for.
    """
    steps = np.sort(table["step"].unique())
    width = steps_per_point(table["step"], most_points)
    # A remainder joins the last point: fewer steps than elsewhere would make it the noisiest of all.
    point = np.minimum(np.searchsorted(steps, table["step"]) // width, len(steps) // width - 1)
    grouped = table.groupby(["arm", "seed", point], sort=True)
    return grouped[["step", value]].mean().reset_index(level=["arm", "seed"]).reset_index(drop=True)


def draw_steps(
    row: Iterable[tuple[Axes, list[str]]],
    table: pd.DataFrame,
    value: str,
    study: StudyFile,
    steps: pd.Series,
    most_points: int = MOST_POINTS,
) -> None:
    """Draw curves over steps: a line for the mean over seeds, a band from the lowest seed to the highest.

    Parameters
    ----------
    table : DataFrame
        Columns arm, seed, step and `value`; a gap where `value` is null in every seed.
    steps : Series
        What the axis shows: all steps of the study.
    """
    of_arms = thinned(table, value, most_points).groupby(["arm", "step"])[value].agg(["mean", "min", "max"])
    curves = of_arms.set_axis(["mean", "low", "high"], axis="columns").reset_index(names=["arm", "x"])
    for panel, arms in row:
        draw_curves(panel, curves, study, arms)
        step_axis(panel, steps)


def draw_curves(axes: Axes, curves: pd.DataFrame, study: StudyFile, arms: list[str]) -> None:
    """Draw a line with some ten markers, shifted from arm to arm, and a band for each of `arms`.

    Parameters
    ----------
    curves : DataFrame
        Columns arm, x, mean, low and high; an arm without rows has no curve.
    """
    look = looks(study)
    few = len(arms) <= 4
    draw_band_of_others(axes, rows_of_others(curves, study))
    for place, arm in enumerate(arms):
        curve = curves[curves["arm"] == arm].sort_values("x")
        x, mean, colour = curve["x"], curve["mean"], look[arm].colour
        if curve.empty:
            continue
        every = max(1, len(curve) // 10)
        alone = mean.notna() & mean.shift().isna() & mean.shift(-1).isna()
        band: dict[str, Any] = {"alpha": 0.2 if few else 0.12, "linewidth": 0}
        axes.fill_between(x, curve["low"], curve["high"], color=colour, label=arm, **band)
        axes.plot(
            x,
            mean,
            color=colour,
            linestyle=look[arm].dashes,
            marker=look[arm].marker,
            markevery=sorted({*range(place % every, len(curve), every), *np.flatnonzero(alone)}),
            linewidth=1.3 if few else 1.0,
            label=arm,
        )


def step_axis(axes: Axes, steps: pd.Series) -> None:
    """Give an axis the range of all steps, whichever of them have values, with ticks at whole numbers."""
    margin = max(0.5, 0.02 * (steps.max() - steps.min()))
    axes.set_xlim(steps.min() - margin, steps.max() + margin)
    round_ticks(axes.xaxis, 6, integer=True, min_n_ticks=1)
    axes.set_xlabel("optimizer step")


def no_total(study: StudyFile) -> str:
    """Say which arms are not trained on the weighted total, as a method combines their components."""
    return f"No covariance with the total: {', '.join(study.arms_with_methods)}, whose components a method combines."


def seeds_note(study: StudyFile, steps: pd.Series, most_points: int = MOST_POINTS) -> str:
    """Say what lines and bands are."""
    point = steps_per_point(steps, most_points)
    band = "Line: the one seed, so there is no band."
    if study.seed_counts[1] > 1:
        band = f"Line: mean over {study.counted_seeds}. Band: from the lowest seed to the highest."
    return band if point == 1 else f"{band} Each point: mean over {point} neighbouring steps."
