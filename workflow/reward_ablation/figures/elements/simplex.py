"""The weight simplex of three components as a triangle."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.style import wrapped

HEIGHT = 3**0.5 / 2

#: Corners of the first, second and third component: top, lower left, lower right.
CORNERS = np.array([[0.5, HEIGHT], [0.0, 0.0], [1.0, 0.0]])

#: Most arms whose accuracy is also written beside their point.
MOST_NUMBERS = 21


def positions(weights: np.ndarray) -> np.ndarray:
    """Places of weight vectors in the triangle.

    Parameters
    ----------
    weights : (arms, 3) array
        Not negative; only their shares matter.

    Returns
    -------
    (arms, 2) array.
    """
    return weights / weights.sum(axis=1, keepdims=True) @ CORNERS


def draw_triangle(axes: Axes, components: list[str]) -> None:
    """Draw the triangle, lines of equal weight at each quarter, and the components at their corners."""
    outline = CORNERS[[0, 1, 2, 0]]
    axes.plot(*outline.T, color="black", linewidth=0.8, zorder=1)
    for quarter in (0.25, 0.5, 0.75):
        for corner in range(3):
            others = [other for other in range(3) if other != corner]
            ends = quarter * CORNERS[corner] + (1 - quarter) * CORNERS[others]
            axes.plot(*ends.T, color="#d8d8d8", linewidth=0.5, zorder=0.5)
    names = [wrapped(name, 16) for name in components]
    axes.text(0.5, HEIGHT + 0.07, names[0], ha="center", va="bottom", fontsize=7)
    axes.text(-0.02, -0.1, names[1], ha="center", va="top", fontsize=7)
    axes.text(1.02, -0.1, names[2], ha="center", va="top", fontsize=7)
    axes.set_aspect("equal")
    axes.set_axis_off()


def simplex_map(axes: Axes, rows: pd.DataFrame, study: StudyFile) -> PathCollection:
    """Draw each arm's estimate as a colour at its weights; return the points, for a colour bar.

    Parameters
    ----------
    rows : DataFrame
        estimate by arm.
    """
    draw_triangle(axes, study.components)
    places = positions(np.array([[arm.weights[name] for name in study.components] for arm in study.arms]))
    estimates = rows.loc[study.arm_names, "estimate"].to_numpy()
    size = 60 if len(places) <= MOST_NUMBERS else 30
    points = axes.scatter(
        places[:, 0], places[:, 1], size, estimates, cmap="viridis", edgecolor="black", linewidth=0.5, zorder=3
    )
    if len(places) <= MOST_NUMBERS:
        for place, estimate in zip(places, estimates, strict=True):
            axes.annotate(
                f"{estimate:.2f}",
                place,
                (0, -6),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=6,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
                zorder=2,
            )
    return points
