"""The weights of arms, drawn as a matrix."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.estimates import name_rows
from reward_ablation.figures.style import wrapped

#: Width in inches of a component's column in the matrix: four digits fit.
COLUMN_WIDTH = 0.42


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
