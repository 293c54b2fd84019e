"""Figure: similarity of the components' gradients by layer and step, between completions of different prompts."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import TITLE_WIDTH, arm_groups, numbers_of
from reward_ablation.figures.elements.style import WIDTH, legend_below, page_of_words, wrapped
from reward_ablation.figures.gradients.similarity_layers import layers_in_order
from reward_ablation.figures.gradients.similarity_steps import (
    LABEL,
    NOT_APART,
    PART,
    alone,
    apart,
    exactness_note,
    leaves_out_zero,
    limit_of,
    of_pair,
    why_not_measured,
)
from reward_ablation.gram.similarity import ALL_LAYERS

#: Most columns and rows of cells in a panel: neighbouring steps and layers are averaged.
MOST_STEPS, MOST_LAYERS = 20, 24

#: Most arms that have a column of panels each; beyond, a column is the mean over a group of arms.
MOST_ALONE = 4

#: A cell without any cosine.
UNKNOWN = "#bdbdbd"


def binned(values: list, most: int) -> dict:
    """Number of the cell of each value: neighbours share one where there are more than `most`."""
    width = ceil(len(values) / most)
    return {value: place // width for place, value in enumerate(values)}


def cells(table: pd.DataFrame, layers: dict[str, int], steps: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Mean similarity across prompts of each cell, and whether a t interval over the cell's values leaves out 0.

    Both are (rows, columns) arrays; NaN and False where there is no value.
    """
    shape = max(layers.values()) + 1, max(steps.values()) + 1
    means, told = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    known = table.dropna(subset=PART)
    row, column = known["layer"].map(layers).rename("row"), known["step"].map(steps).rename("column")
    summary = known.groupby([row, column])[PART].agg(["mean", "std", "count"]).reset_index()
    places = summary["row"].to_numpy(dtype=int), summary["column"].to_numpy(dtype=int)
    mean, deviation, count = summary[["mean", "std", "count"]].to_numpy(dtype=float).T
    means[places] = mean
    told[places] = leaves_out_zero(mean, deviation, count, 0.95)
    return means, told


def draw_cells(
    axes: Axes, table: pd.DataFrame, layers: dict[str, int], steps: dict[int, int], limit: float
) -> QuadMesh:
    """Draw the cells of one pair of components and some arms; a dot where the mean is not told from 0.

    Where no run of these arms has both components, the panel says so.
    """
    means, told = cells(table, layers, steps)
    axes.set_facecolor("white" if table.empty else UNKNOWN)
    if table.empty:
        axes.text(0.5, 0.5, "not\nmeasured", transform=axes.transAxes, ha="center", va="center", fontsize=7)
    mesh = axes.pcolormesh(np.ma.masked_invalid(means), cmap="RdBu_r", vmin=-limit, vmax=limit)
    rows, columns = np.nonzero(~told & np.isfinite(means))
    axes.plot(columns + 0.5, rows + 0.5, linestyle="none", marker="o", markersize=1.3, color="#303030")
    axes.set_xlim(0, means.shape[1])
    axes.set_ylim(means.shape[0], 0)  # the input on top
    axes.grid(visible=False)
    return mesh


def label_cells(set_ticks: Callable[..., object], cell_of: dict, most: int, shown: bool) -> None:
    """Name at most so many of the rows or columns, each by its first layer or step."""
    first = {cell: str(name).removeprefix("layers.") for name, cell in reversed(cell_of.items())}
    some = sorted(first)[:: ceil(len(first) / most)]
    set_ticks([cell + 0.5 for cell in some], [first[cell] if shown else "" for cell in some])


def similarity_heatmap(similarity_by_step: pd.DataFrame, study: StudyFile) -> Figure:
    """A row of panels for each pair of components, a column for each arm or group of arms: a cell by layer and step."""
    table = alone(similarity_by_step[similarity_by_step["layer"] != ALL_LAYERS])
    if table.empty or not apart(table):
        return page_of_words(why_not_measured(study) if table.empty else NOT_APART)
    layers = binned(layers_in_order(list(table["layer"].unique())), MOST_LAYERS)
    steps = binned(sorted(table["step"].unique()), MOST_STEPS)
    few = len(study.arms) <= MOST_ALONE
    groups = [[arm] for arm in study.arm_names] if few else arm_groups(study)
    pairs = study.pairs
    height = 0.75 + 0.09 * (max(layers.values()) + 1)
    figure = Figure(figsize=(WIDTH, len(pairs) * height + 0.7))
    panels = figure.subplots(len(pairs), len(groups), squeeze=False)
    in_cells = table.assign(layer=table["layer"].map(layers), step=table["step"].map(steps))
    limit = limit_of(in_cells.groupby(["arm", "component_a", "component_b", "layer", "step"])[[PART]].mean())
    for row, pair in zip(panels, pairs, strict=True):
        of_two = of_pair(table, pair)
        for panel, arms in zip(row, groups, strict=True):
            mesh = draw_cells(panel, of_two[of_two["arm"].isin(arms)], layers, steps, limit)
            label_cells(panel.set_yticks, layers, 12, shown=panel is row[0])
            label_cells(panel.set_xticks, steps, 5, shown=pair == pairs[-1])
        row[0].set_ylabel(wrapped(" · ".join(pair), max(12, int(height / 0.075))))
    for top, bottom, arms in zip(panels[0], panels[-1], groups, strict=True):
        name = arms[0] if few else f"{numbers_of(arms, study)}, mean"
        top.set_title(wrapped(name, TITLE_WIDTH * 3 // (len(groups) + 2)), loc="left")
        bottom.set_xlabel("optimizer step")
    bar = figure.colorbar(mesh, ax=panels, shrink=min(1.0, 2.0 / (len(pairs) * height) + 0.3), aspect=25)
    bar.set_label(LABEL)
    seeds = "the one seed" if study.seed_counts[1] == 1 else study.counted_seeds
    note = (
        f"Part of the cosine from completions of different prompts. Mean over {seeds}, and over neighbouring steps "
        "and layers where they share a cell. Input on top. Dot: the 95\u00a0% interval (Student's t over the cell's "
        "values, taken as independent) holds 0, or there is one value only. Grey: one of the gradients is zero. "
        f"{exactness_note(study, table['folding_error'])}"
    )
    legend_below(figure, [], note)
    return figure
