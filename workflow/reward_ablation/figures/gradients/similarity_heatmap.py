"""Figure: gradient similarity of components across prompts, by layer and step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import TITLE_WIDTH, arm_groups, numbers_of
from reward_ablation.figures.elements.style import WIDTH, legend_below, page_of_words, wrapped
from reward_ablation.figures.gradients.similarity_layers import layers_in_order
from reward_ablation.figures.gradients.similarity_steps import (
    LABEL,
    PART,
    PROMPTS_NOT_SEPARATED,
    exactness_note,
    leaves_out_zero,
    limit_of,
    of_pair,
    read_single_rewards,
    rows_of_single_rewards,
    separates_prompts,
    why_not_measured,
)
from reward_ablation.gram.similarity import ALL_LAYERS

#: Most columns and rows of cells in a panel. With more steps or layers, neighbours are averaged.
MOST_STEPS, MOST_LAYERS = 20, 24

#: With at most this many arms, each arm has a column of panels. Otherwise a column is the mean over a group of arms.
MOST_ALONE = 4

#: How the figure reads a table that has millions of rows in a large study.
READERS = {"similarity_by_step": partial(read_single_rewards, layers=pc.field("layer") != ALL_LAYERS)}

#: Colour of a cell without any cosine.
UNKNOWN = "#bdbdbd"


def binned(values: list, most: int) -> dict:
    """Number of the cell of each value. Neighbours share a cell if there are more than `most` values."""
    width = ceil(len(values) / most)
    return {value: number // width for number, value in enumerate(values)}


def cells(table: pd.DataFrame, layers: dict[str, int], steps: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Mean similarity across prompts of each cell, and whether the sign of the mean is known.

    The sign is known if Student's t interval over the cell's values leaves out 0.

    Parameters
    ----------
    table : DataFrame
        Rows of one panel.
    layers, steps : dict
        Row of cells of each layer, and column of cells of each step.

    Returns
    -------
    Two (rows, columns) arrays. A cell without a value has NaN and False.
    """
    shape = max(layers.values()) + 1, max(steps.values()) + 1
    means, sign_known = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    known = table.dropna(subset=PART)
    row, column = known["layer"].map(layers).rename("row"), known["step"].map(steps).rename("column")
    summary = known.groupby([row, column])[PART].agg(["mean", "std", "count"]).reset_index()
    indices = summary["row"].to_numpy(dtype=int), summary["column"].to_numpy(dtype=int)
    mean, deviation, count = summary[["mean", "std", "count"]].to_numpy(dtype=float).T
    means[indices] = mean
    sign_known[indices] = leaves_out_zero(mean, deviation, count, 0.95)
    return means, sign_known


def draw_cells(
    axes: Axes, table: pd.DataFrame, layers: dict[str, int], steps: dict[int, int], limit: float
) -> QuadMesh:
    """Draw the cells of one pair of components and some arms, with a dot where the sign of the mean is not known.

    A panel without rows says that nothing was measured: no run of its arms has both components.
    """
    means, sign_known = cells(table, layers, steps)
    axes.set_facecolor("white" if table.empty else UNKNOWN)
    if table.empty:
        axes.text(0.5, 0.5, "not\nmeasured", transform=axes.transAxes, ha="center", va="center", fontsize=7)
    mesh = axes.pcolormesh(np.ma.masked_invalid(means), cmap="RdBu_r", vmin=-limit, vmax=limit)
    rows, columns = np.nonzero(~sign_known & np.isfinite(means))
    axes.plot(columns + 0.5, rows + 0.5, linestyle="none", marker="o", markersize=1.3, color="#303030")
    axes.set_xlim(0, means.shape[1])
    axes.set_ylim(means.shape[0], 0)  # the input on top
    axes.grid(visible=False)
    return mesh


def label_cells(set_ticks: Callable[..., object], cell_of: dict, most: int, shown: bool) -> None:
    """Set at most `most` ticks on rows or columns of cells, each labelled by its first layer or step if `shown`."""
    first = {cell: str(name).removeprefix("layers.") for name, cell in reversed(cell_of.items())}
    labelled = sorted(first)[:: ceil(len(first) / most)]
    set_ticks([cell + 0.5 for cell in labelled], [first[cell] if shown else "" for cell in labelled])


def similarity_heatmap(similarity_by_step: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a row of panels for each pair of components, and a column for each arm or group of arms.

    A panel has a cell for each layer and step.
    """
    table = rows_of_single_rewards(similarity_by_step[similarity_by_step["layer"] != ALL_LAYERS])
    if table.empty or not separates_prompts(table):
        return page_of_words(why_not_measured(study) if table.empty else PROMPTS_NOT_SEPARATED)
    layers = binned(layers_in_order(list(table["layer"].unique())), MOST_LAYERS)
    steps = binned(sorted(table["step"].unique()), MOST_STEPS)
    arms_alone = len(study.arms) <= MOST_ALONE
    groups = [[arm] for arm in study.arm_names] if arms_alone else arm_groups(study)
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
        name = arms[0] if arms_alone else f"{numbers_of(arms, study)}, mean"
        top.set_title(wrapped(name, TITLE_WIDTH * 3 // (len(groups) + 2)), loc="left")
        bottom.set_xlabel("optimizer step")
    bar = figure.colorbar(mesh, ax=panels, shrink=min(1.0, 2.0 / (len(pairs) * height) + 0.3), aspect=25)
    bar.set_label(LABEL)
    seeds = "the one seed" if study.seed_counts[1] == 1 else study.counted_seeds
    note = (
        f"Part of the cosine from completions of different prompts. Mean over {seeds}, and over neighbouring steps "
        "and layers that share a cell. Input on top. Dot: the 95\u00a0% interval (Student's t over the cell's "
        "values, taken as independent) includes 0, or there is only one value. Grey: one of the gradients is zero. "
        f"{exactness_note(study, table['folding_error'])}"
    )
    legend_below(figure, [], note)
    return figure
