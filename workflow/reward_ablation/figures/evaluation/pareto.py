"""Figure: accuracy against completion length."""

from __future__ import annotations

from math import ceil

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import interval, interval_note, kinds, select
from reward_ablation.figures.elements.style import (
    BASE_COLOUR,
    ONE_COLUMN,
    STYLE,
    WIDTH,
    Look,
    legend_below,
    looks,
    title,
)

#: Look of the base model, which no arm has.
BASE = Look(BASE_COLOUR, "dashed", "x")

#: The front is a broad light line behind the points: their intervals hide a thin one.
FRONT_COLOUR = "#d9d9d9"


def front(tokens: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Points that no other point beats: none is at most as long and at least as accurate, and one of both strictly.

    Parameters
    ----------
    tokens, accuracy : (n,) arrays

    Returns
    -------
    Their places, from the shortest to the longest, and with that from the least to the most accurate.
    """
    places = [
        n
        for n in range(len(tokens))
        if not np.any(
            (tokens <= tokens[n]) & (accuracy >= accuracy[n]) & ((tokens < tokens[n]) | (accuracy > accuracy[n]))
        )
    ]
    return np.array(sorted(places, key=lambda n: tokens[n]), dtype=int)


def draw_panel(axes: Axes, evaluation_by_arm: pd.DataFrame, study: StudyFile, dataset: str, mode: str) -> None:
    """Draw each arm and the base model with both intervals, and the front through the estimates."""
    arms = ["base", *study.arm_names]
    tokens = select(evaluation_by_arm, dataset, mode, "tokens").loc[arms]
    accuracy = select(evaluation_by_arm, dataset, mode, "accuracy_strict").loc[arms]
    shown = front(tokens["estimate"].to_numpy(), accuracy["estimate"].to_numpy())
    axes.plot(
        tokens["estimate"].to_numpy()[shown],
        accuracy["estimate"].to_numpy()[shown],
        drawstyle="steps-post",
        color=FRONT_COLOUR,
        linewidth=4,
        solid_joinstyle="round",
        zorder=1,
        label="front",
    )
    for arm, look in {"base": BASE, **looks(study)}.items():
        (x, left, right), (y, low, high) = interval(tokens, arm), interval(accuracy, arm)
        axes.errorbar(
            x,
            y,
            xerr=[[max(0.0, x - left)], [max(0.0, right - x)]],
            yerr=[[max(0.0, y - low)], [max(0.0, high - y)]],
            color=look.colour,
            marker=look.marker,
            markersize=5,
            elinewidth=0.8,
            capsize=1.2,
            linestyle="none",
            label=arm,
        )
    axes.set_xlabel("completion tokens")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


@rc_context(STYLE)
def pareto(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """One panel per data set and mode: strict accuracy against completion tokens, and the Pareto front."""
    panels = kinds(evaluation_by_arm, study)
    columns = min(2, len(panels))
    rows = ceil(len(panels) / columns)
    figure = Figure(figsize=(ONE_COLUMN if columns == 1 else WIDTH, 2.7 * rows + 0.4))
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for place, (panel, (dataset, mode, questions)) in enumerate(zip(grid, panels, strict=False)):
        draw_panel(panel, evaluation_by_arm, study, dataset, mode)
        panel.set_title(f"{dataset}, {mode}:\n{questions:,} questions", loc="left")
        if place % columns == 0:
            panel.set_ylabel("strict accuracy")
    for spare in grid[len(panels) :]:
        spare.remove()
    title(figure, "Accuracy against completion length")
    handles: list[Artist] = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle="none", label=name)
        for name, look in {**looks(study), "base model": BASE}.items()
    ]
    handles.append(Line2D([], [], color=FRONT_COLOUR, linewidth=4, label="Pareto front of the estimates"))
    note = "Up and to the left is better. The front joins what no other model beats in both, by the estimates alone."
    legend_below(figure, handles, f"{note} {interval_note(study)}")
    return figure
