"""Figure: the main metric of each arm beside the arm's weights."""

from __future__ import annotations

from math import ceil

import pandas as pd
from matplotlib.figure import Figure, SubFigure

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import (
    base_legend,
    datasets_and_modes,
    draw_rows,
    row_height,
    select,
    share_axis,
)
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms, with_others
from reward_ablation.figures.elements.style import WIDTH, panel_grid
from reward_ablation.figures.elements.weights import COLUMN_WIDTH, simplex_map, weight_matrix

#: Height in inches of a row of triangles.
TRIANGLE = 2.9


def draw_table(figure: Figure | SubFigure, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> None:
    """Draw a row per arm: name, weights, and main metric in each data set and mode.

    The best arm in the first data set and mode comes first. Equal arms stay in the study's order.
    """
    panels = datasets_and_modes(evaluation_by_arm, study)
    first, mode, _ = panels[0]
    estimates = select(evaluation_by_arm, first, mode, study.main_metric)["estimate"]
    arms = sorted(study.arm_names, key=lambda arm: estimates[arm], reverse=study.main_is_better_high)
    arms = with_others(study, arms)
    widths = [COLUMN_WIDTH * len(study.components), *[1.5] * len(panels)]
    matrix, *grid = figure.subplots(1, 1 + len(panels), sharey=True, width_ratios=widths)
    weight_matrix(matrix, study, arms)
    for panel, (dataset, mode, _) in zip(grid, panels, strict=True):
        draw_rows(panel, select(evaluation_by_arm, dataset, mode, study.main_metric), study, arms)
        panel.tick_params(axis="y", length=0)
        panel.set_title(f"{dataset},\n{mode}", loc="left")
        panel.set_xlabel(name_of(study.main_metric))
        share_axis(panel, study, study.main_metric)


def draw_maps(figure: SubFigure, evaluation_by_arm: pd.DataFrame, study: StudyFile, columns: int) -> None:
    """Draw a triangle per data set and mode."""
    panels = datasets_and_modes(evaluation_by_arm, study)
    for panel, (dataset, mode, _) in zip(panel_grid(figure, len(panels), columns), panels, strict=True):
        points = simplex_map(panel, select(evaluation_by_arm, dataset, mode, study.main_metric), study)
        panel.set_title(f"{dataset}, {mode}", loc="left", pad=20)
        figure.colorbar(points, ax=panel, shrink=0.7, aspect=18, label=name_of(study.main_metric)).outline.set_visible(
            False
        )


def arms(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the main metric beside the weights, best arm first.

    In a simplex design of three components, triangles with the metric at the weights come above.
    """
    panels = len(datasets_and_modes(evaluation_by_arm, study))
    few = reduced_to_shown_arms(study, evaluation_by_arm)
    names = with_others(few, few.arm_names)
    height = row_height(names) * len(names) + 1.5
    width = max(WIDTH, 2.2 + COLUMN_WIDTH * len(study.components) + 1.2 * panels)
    if study.design == "simplex" and len(study.factors) == 3:
        columns = min(2, panels)
        maps = TRIANGLE * ceil(panels / columns)
        figure = Figure(figsize=(width, maps + height))
        rows = figure.add_gridspec(2, 1, height_ratios=[maps, height])
        draw_maps(figure.add_subfigure(rows[0]), evaluation_by_arm, study, columns)
        draw_table(figure.add_subfigure(rows[1]), evaluation_by_arm, few)
    else:
        figure = Figure(figsize=(width, height))
        draw_table(figure, evaluation_by_arm, few)
    before = f"Best arm first, by {name_of(study.main_metric)} in the first panel. "
    base_legend(figure, evaluation_by_arm, few, before)
    return figure
