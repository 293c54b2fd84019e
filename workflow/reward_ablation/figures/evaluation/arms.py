"""Figure: accuracy against the weights of the arms."""

from __future__ import annotations

from math import ceil

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure, SubFigure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import (
    accuracy_handles,
    draw_accuracies,
    interval_note,
    kinds,
    row_height,
    select,
    share_axis,
)
from reward_ablation.figures.elements.simplex import simplex_map
from reward_ablation.figures.elements.style import STYLE, WIDTH, legend_below, title
from reward_ablation.figures.elements.weights import COLUMN_WIDTH, weight_matrix

#: Inches of a row of triangles.
TRIANGLE = 2.9


def arms_by_accuracy(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> list[str]:
    """Arms from best to worst in the first data set and mode; equal ones in the study's order."""
    dataset, mode, _ = kinds(evaluation_by_arm, study)[0]
    estimates = select(evaluation_by_arm, dataset, mode, "accuracy_strict")["estimate"]
    return sorted(study.arm_names, key=lambda arm: -estimates[arm])


def draw_table(figure: Figure | SubFigure, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> None:
    """Draw a row per arm: its name, its weights, and its accuracy, strict and lenient, in each data set and mode."""
    arms = arms_by_accuracy(evaluation_by_arm, study)
    panels = kinds(evaluation_by_arm, study)
    matrix_width = COLUMN_WIDTH * len(study.components)
    grid = figure.subplots(1, 1 + len(panels), sharey=True, width_ratios=[matrix_width, *[1.5] * len(panels)])
    weight_matrix(grid[0], study, arms)
    for panel, (dataset, mode, _) in zip(grid[1:], panels, strict=True):
        draw_accuracies(panel, evaluation_by_arm, study, dataset, mode, arms)
        panel.tick_params(axis="y", length=0)
        panel.set_title(f"{dataset},\n{mode}", loc="left")
        panel.set_xlabel("accuracy")
        share_axis(panel)


def draw_maps(figure: SubFigure, evaluation_by_arm: pd.DataFrame, study: StudyFile, columns: int) -> None:
    """Draw a triangle per data set and mode."""
    panels = kinds(evaluation_by_arm, study)
    grid = list(figure.subplots(ceil(len(panels) / columns), columns, squeeze=False).flat)
    for panel, (dataset, mode, _) in zip(grid, panels, strict=False):
        points = simplex_map(panel, select(evaluation_by_arm, dataset, mode, "accuracy_strict"), study)
        panel.set_title(f"{dataset}, {mode}", loc="left", pad=20)
        figure.colorbar(points, ax=panel, shrink=0.7, aspect=18, label="strict accuracy").outline.set_visible(False)
    for spare in grid[len(panels) :]:
        spare.remove()


@rc_context(STYLE)
def arms(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Accuracy beside the weights, best arm first; above them the simplex, where three components span one."""
    panels = len(kinds(evaluation_by_arm, study))
    height = row_height(study.arm_names) * len(study.arms) + 1.5
    width = max(WIDTH, 2.2 + COLUMN_WIDTH * len(study.components) + 1.2 * panels)
    if study.design == "simplex" and len(study.components) == 3:
        columns = min(2, panels)
        maps = TRIANGLE * ceil(panels / columns)
        figure = Figure(figsize=(width, maps + height))
        rows = figure.add_gridspec(2, 1, height_ratios=[maps, height])
        draw_maps(figure.add_subfigure(rows[0]), evaluation_by_arm, study, columns)
        draw_table(figure.add_subfigure(rows[1]), evaluation_by_arm, study)
    else:
        figure = Figure(figsize=(width, height))
        draw_table(figure, evaluation_by_arm, study)
    title(figure, "Accuracy against the weights of the arms")
    order = "Best arm first, by strict accuracy in the first panel."
    legend_below(figure, accuracy_handles(), f"{order} {interval_note(study)}")
    return figure
