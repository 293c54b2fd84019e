"""Figure: the main metric against completion length."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import base_note, datasets_and_modes, interval, select
from reward_ablation.figures.elements.few_arms import DARK, others_note, reduced_to_shown_arms, rows_of_others
from reward_ablation.figures.elements.style import (
    BASE_COLOUR,
    ONE_COLUMN,
    WIDTH,
    Look,
    arm_looks,
    draw_points,
    legend_below,
    panel_grid,
    round_ticks,
)

#: Look of the base model, which no arm has.
BASE = Look(BASE_COLOUR, "dashed", "x")

#: Style of the Pareto front: a broad light line behind the points, because their intervals would hide a thin line.
FRONT: dict[str, Any] = {"color": "#d9d9d9", "linewidth": 4}


def front(tokens: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Indices of the points on the Pareto front.

    A point is on the front unless another point is at most as long and at least as accurate, and better in one of the
    two.

    Parameters
    ----------
    tokens : (n,) array
        Completion length of each point.
    accuracy : (n,) array
        Accuracy, or another metric of which more is better.

    Returns
    -------
    Indices from the shortest to the longest point, which is also from the least to the most accurate.
    """
    as_good = (tokens[:, None] <= tokens) & (accuracy[:, None] >= accuracy)
    better = (tokens[:, None] < tokens) | (accuracy[:, None] > accuracy)
    unbeaten = np.flatnonzero(~(as_good & better).any(axis=0))
    return unbeaten[np.argsort(tokens[unbeaten], kind="stable")]


def draw_panel(axes: Axes, evaluation_by_arm: pd.DataFrame, study: StudyFile, dataset: str, mode: str) -> None:
    """Draw each arm and the base model with intervals in x and y, and the Pareto front of the estimates."""
    arms = {"base": BASE, **arm_looks(study)}
    tokens = select(evaluation_by_arm, dataset, mode, "tokens")
    hidden = [*rows_of_others(tokens.reset_index(), study)["arm"]]
    tokens = tokens.loc[[*arms, *hidden]]
    accuracy = select(evaluation_by_arm, dataset, mode, study.main_metric).loc[[*arms, *hidden]]
    estimates = tokens["estimate"].to_numpy(), accuracy["estimate"].to_numpy()
    if hidden:
        axes.plot(*(values[len(arms) :] for values in estimates), ".", color=DARK, markersize=3, zorder=0.9)
    unbeaten = front(estimates[0], estimates[1] if study.main_is_better_high else -estimates[1])
    corners = [values[unbeaten] for values in estimates]
    axes.plot(*corners, drawstyle="steps-post", solid_joinstyle="round", zorder=1, label="front", **FRONT)
    style: dict[str, Any] = {"markersize": 5, "elinewidth": 0.8, "capsize": 1.2, "linestyle": "none"}
    for arm, look in arms.items():
        (x, *across), (y, *along) = interval(tokens, arm), interval(accuracy, arm)
        draw_points(axes, look, x, y, across=across, along=along, label=arm, **style)
    axes.set_xlabel("completion tokens")
    round_ticks(axes.xaxis, 5)
    round_ticks(axes.yaxis, 5)


def pareto(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a panel per data set and mode: the main metric against completion tokens, and the Pareto front."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    panels = datasets_and_modes(evaluation_by_arm, study)
    columns = min(2, len(panels))
    figure = Figure(figsize=(ONE_COLUMN if columns == 1 else WIDTH, 2.7 * ceil(len(panels) / columns) + 0.4))
    grid = panel_grid(figure, len(panels), columns)
    for panel, (dataset, mode, questions) in zip(grid, panels, strict=True):
        draw_panel(panel, evaluation_by_arm, study, dataset, mode)
        panel.set_title(f"{dataset}, {mode}:\n{questions:,} questions", loc="left")
    for panel in grid[::columns]:
        panel.set_ylabel(name_of(study.main_metric))
    handles: list[Artist] = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle="none", label=name)
        for name, look in {**arm_looks(study), "base model": BASE}.items()
    ]
    handles.append(Line2D([], [], **FRONT, label="Pareto front of the estimates"))
    better = "Up" if study.main_is_better_high else "Down"
    front_note = "The front joins the models that no other model beats in one without being worse in the other."
    legend_below(
        figure,
        handles,
        f"{better} and to the left is better. {front_note} {base_note(study)}{others_note(study, dots=True)}",
    )
    return figure
