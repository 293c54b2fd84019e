"""The weights of arms, drawn as a matrix, or as points in a triangle if there are three components."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.estimates import name_rows
from reward_ablation.figures.style import wrapped

#: Width in inches of a component's column in the matrix: four digits fit.
COLUMN_WIDTH = 0.42

#: Height of the triangle, whose sides are 1.
HEIGHT = 3**0.5 / 2

#: Corners of the triangle for the first, second and third component: top, lower left, lower right.
CORNERS = np.array([[0.5, HEIGHT], [0.0, 0.0], [1.0, 0.0]])

#: With at most this many arms, the estimate is also written below the point of each arm.
MOST_NUMBERS = 21

#: With more arms than this, points are small.
MANY_POINTS = 100


def positions(weights: np.ndarray) -> np.ndarray:
    """(arms, 2) positions in the triangle of (arms, 3) weights of at least 0. Only their shares matter."""
    return weights / weights.sum(axis=1, keepdims=True) @ CORNERS


def draw_triangle(axes: Axes, components: list[str]) -> None:
    """Draw the triangle, lines where a component has a quarter, half or three quarters, and the components' names."""
    outline = CORNERS[[0, 1, 2, 0]]
    axes.plot(*outline.T, color="black", linewidth=0.8, zorder=1)
    for quarter in (0.25, 0.5, 0.75):
        for corner in range(3):
            ends = quarter * CORNERS[corner] + (1 - quarter) * np.delete(CORNERS, corner, axis=0)
            axes.plot(*ends.T, color="#d8d8d8", linewidth=0.5, zorder=0.5)
    names = [wrapped(name, 16) for name in components]
    axes.text(0.5, HEIGHT + 0.07, names[0], ha="center", va="bottom", fontsize=7)
    axes.text(-0.02, -0.1, names[1], ha="center", va="top", fontsize=7)
    axes.text(1.02, -0.1, names[2], ha="center", va="top", fontsize=7)
    axes.set_aspect("equal")
    axes.set_axis_off()


def simplex_map(axes: Axes, rows: pd.DataFrame, study: StudyFile) -> PathCollection:
    """Draw the estimate of each arm as a colour at the arm's weights; returns the points, for a colour bar.

    The control and arms with a method of combination have no position in the triangle.
    """
    draw_triangle(axes, study.factors)
    arms = [arm for arm in study.arms if arm.name != study.control and arm.has_fixed_weights]
    arm_positions = positions(np.array([[arm.weights[name] for name in study.factors] for arm in arms]))
    estimates = rows.loc[[arm.name for arm in arms], "estimate"].to_numpy()
    size = 60 if len(arms) <= MOST_NUMBERS else 30 if len(arms) <= MANY_POINTS else 8
    points = axes.scatter(
        arm_positions[:, 0],
        arm_positions[:, 1],
        size,
        estimates,
        cmap="viridis",
        edgecolor="black",
        linewidth=0.5 if size > 8 else 0.2,
        zorder=3,
    )
    if len(arms) <= MOST_NUMBERS:
        for position, estimate in zip(arm_positions, estimates, strict=True):
            below: dict[str, Any] = {
                "textcoords": "offset points",
                "ha": "center",
                "va": "top",
                "fontsize": 7,
                "zorder": 2,
            }
            box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
            axes.annotate(f"{estimate:.2f}", position, (0, -6), bbox=box, **below)
    return points


def weight_matrix(axes: Axes, study: StudyFile, arms: list[str]) -> None:
    """Draw the weights of `arms`, from top to bottom; a dash stands for a component that does not score the arm.

    Shades are relative to the study's largest weight, because each study has weights of its own size. Only the number
    shows the sign of a weight.
    """
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
        ink = "#a0a0a0" if weight == 0 else "white" if shades[row, column] > 0.7 else "black"
        written = f"{weight:.3g}".replace("-", "−") if study.components[column] in scored[arms[row]] else "–"
        axes.text(column, row, written, ha="center", va="center", fontsize=7, color=ink)
    name_rows(axes, arms)
    axes.set_xticks(range(len(study.components)), [wrapped(name, 18) for name in study.components], rotation=90)
    axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(-0.5, len(study.components) - 0.5)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
