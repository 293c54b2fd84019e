"""The weights of arms as a small matrix: a row per arm, a column per component."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import name_rows
from reward_ablation.figures.elements.style import wrapped

#: Inches of a component's column: four digits fit.
COLUMN_WIDTH = 0.42


def weight_matrix(axes: Axes, study: StudyFile, arms: list[str]) -> None:
    """Draw the weights of `arms`, from top to bottom: the darker, the larger; zero is white.

    Shades are relative to the largest weight, since studies weigh in units of their own; the sign
    of a weight is in its number only.
    """
    weights = {arm.name: arm.weights for arm in study.arms}
    matrix = np.array([[weights[arm][component] for component in study.components] for arm in arms])
    shades = np.abs(matrix) / (np.abs(matrix).max() or 1.0)
    edges = [np.arange(size + 1) - 0.5 for size in matrix.shape]
    axes.pcolormesh(edges[1], edges[0], shades, cmap="Greys", vmin=0, vmax=1.4, edgecolors="white", linewidth=1.5)
    for (row, column), weight in np.ndenumerate(matrix):
        ink = "#a0a0a0" if weight == 0 else "white" if shades[row, column] > 0.7 else "black"
        axes.text(column, row, f"{weight:.3g}".replace("-", "−"), ha="center", va="center", fontsize=6.5, color=ink)
    name_rows(axes, arms)
    axes.set_xticks(range(len(study.components)), [wrapped(name, 18) for name in study.components], rotation=90)
    axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(-0.5, len(study.components) - 0.5)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
