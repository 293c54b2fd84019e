"""Curves over steps or layers: a line per arm, a band for its seeds."""

from __future__ import annotations

from math import ceil

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.style import WIDTH, Look, legend_below, looks, title, wrapped

#: Most points of a curve; beyond, neighbouring steps are averaged, or lines would run into each other.
MOST_POINTS = 120

#: Most arms that share a panel, and most panels that share the arms of a study.
MOST_ARMS, MOST_GROUPS = 6, 3

#: Characters of a title over the narrowest panels, a third of a figure's width.
TITLE_WIDTH = 32


def arm_groups(study: StudyFile) -> list[list[str]]:
    """Split the arms, in their order, into groups that can be told apart in one panel."""
    names = study.arm_names
    groups = min(MOST_GROUPS, ceil(len(names) / MOST_ARMS))
    size = ceil(len(names) / groups)
    return [names[first : first + size] for first in range(0, len(names), size)]


def curve_panels(study: StudyFile, quantities: int, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure with panels for each quantity: one for each group of arms.

    Returns
    -------
    The figure and a list per quantity of its panels, which share their y axis. Many groups have a
    row per quantity; one group has at most three quantities in a row.
    """
    groups = len(arm_groups(study))
    if groups > 1:
        figure = Figure(figsize=(WIDTH, quantities * height + 0.4))
        grid = figure.subplots(quantities, groups, squeeze=False, sharex=True, sharey="row")
        return figure, [list(row) for row in grid]
    columns = 2 if quantities == 4 else min(quantities, 3)
    rows = ceil(quantities / columns)
    figure = Figure(figsize=(WIDTH, rows * height + 0.4))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in panels[quantities:]:
        spare.remove()
    return figure, [[panel] for panel in panels[:quantities]]


def panel_title(axes: Axes, name: str, study: StudyFile, arms: list[str]) -> None:
    """Name a panel's quantity, and its arms where it does not show all."""
    first = study.arm_names.index(arms[0]) + 1
    some = "" if len(arms) == len(study.arms) else f", arms {first} to {first + len(arms) - 1}"
    axes.set_title(wrapped((name + some).removeprefix(", "), TITLE_WIDTH), loc="left")


def finish(figure: Figure, study: StudyFile, heading: str, note: str) -> None:
    """Add the title, and the legend of the arms below the panels: a column per group where there are several."""
    title(figure, heading)
    groups = len(arm_groups(study))
    if groups > 1:
        for panel in figure.axes:
            panel.label_outer()
    handles: list[Artist] = [
        Line2D([], [], color=look.colour, linestyle=look.dashes, marker=look.marker, label=arm)
        for arm, look in looks(study).items()
    ]
    legend_below(figure, handles, note, most_columns=groups if groups > 1 else 6)


def steps_per_point(steps: pd.Series, most_points: int = MOST_POINTS) -> int:
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


def over_seeds(table: pd.DataFrame, position: str, value: str) -> pd.DataFrame:
    """Mean and range over seeds at each position; null where no seed has a value.

    Returns
    -------
    Columns `position`, mean, low, high, in order of position.
    """
    summary = table.groupby(position, sort=True)[value].agg(["mean", "min", "max"])
    return summary.set_axis(["mean", "low", "high"], axis="columns").reset_index()


def draw_arms(axes: Axes, table: pd.DataFrame, study: StudyFile, arms: list[str], position: str, value: str) -> None:
    """Draw a line and a band for each of `arms`; gaps where `value` is null in every seed.

    Parameters
    ----------
    table : DataFrame
        Columns arm, seed, `position` and `value`; one row per arm, seed and position.
    """
    look = looks(study)
    for place, arm in enumerate(arms):
        curve = over_seeds(table[table["arm"] == arm], position, value)
        if not curve.empty:
            draw_curve(axes, curve.rename(columns={position: "x"}), arm, look[arm], place, len(arms))


def draw_curve(axes: Axes, curve: pd.DataFrame, arm: str, look: Look, place: int, arms: int) -> None:
    """Draw an arm's line with some ten markers, shifted from arm to arm, and its band."""
    every = max(1, len(curve) // 10)
    alone = curve["mean"].notna() & curve["mean"].shift().isna() & curve["mean"].shift(-1).isna()
    band = 0.2 if arms <= 4 else 0.12
    axes.fill_between(curve["x"], curve["low"], curve["high"], color=look.colour, alpha=band, linewidth=0, label=arm)
    axes.plot(
        curve["x"],
        curve["mean"],
        color=look.colour,
        linestyle=look.dashes,
        marker=look.marker,
        markevery=sorted({*range(place % every, len(curve), every), *np.flatnonzero(alone)}),
        linewidth=1.3 if arms <= 4 else 1.0,
        label=arm,
    )


def step_axis(axes: Axes, steps: pd.Series) -> None:
    """Give an axis the range of all steps, whichever of them have values, with ticks at whole numbers."""
    margin = max(0.5, 0.02 * (steps.max() - steps.min()))
    axes.set_xlim(steps.min() - margin, steps.max() + margin)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    axes.set_xlabel("optimizer step")


def seeds_note(study: StudyFile, point: int = 1) -> str:
    """Say what lines and bands are."""
    seeds = len(study.seeds)
    band = (
        "Line: the one seed, so there is no band."
        if seeds == 1
        else (f"Line: mean over {seeds} seeds. Band: from the lowest seed to the highest.")
    )
    return band if point == 1 else f"{band} Each point: mean over {point} neighbouring steps."
