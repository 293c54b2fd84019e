"""Figure: the final models under evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import (
    accuracy_handles,
    draw_accuracies,
    draw_points,
    interval_note,
    kinds,
    name_rows,
    row_height,
    select,
    share_axis,
)
from reward_ablation.figures.elements.style import STYLE, WIDTH, legend_below, title


def draw_row(
    panels: Sequence[Axes], evaluation_by_arm: pd.DataFrame, study: StudyFile, dataset: str, mode: str
) -> None:
    """Draw the three panels of one data set and mode."""
    arms = study.arm_names
    accuracy, adherence, tokens = panels
    draw_accuracies(accuracy, evaluation_by_arm, study, dataset, mode, arms)
    draw_points(adherence, select(evaluation_by_arm, dataset, mode, "format"), study, arms)
    draw_points(tokens, select(evaluation_by_arm, dataset, mode, "tokens"), study, arms)
    name_rows(accuracy, arms)
    for panel, label in zip(panels, ("accuracy", "format adherence", "completion tokens"), strict=True):
        panel.set_xlabel(label)
        if panel is not tokens:
            share_axis(panel)


@rc_context(STYLE)
def evaluation(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """One row of panels per data set and mode: accuracy strict and lenient, format adherence, tokens."""
    arms = study.arm_names
    rows = kinds(evaluation_by_arm, study)
    figure = Figure(figsize=(WIDTH, len(rows) * (row_height(arms) * len(arms) + 0.75) + 0.4))
    grid = figure.subplots(len(rows), 3, squeeze=False, sharey="row", width_ratios=[5, 3, 3])
    for panels, (dataset, mode, questions) in zip(grid, rows, strict=True):
        draw_row(panels, evaluation_by_arm, study, dataset, mode)
        panels[0].set_title(f"{dataset}, {mode}: {questions:,} questions", loc="left")
    title(figure, "Evaluation of the final models")
    legend_below(figure, accuracy_handles(), interval_note(study))
    return figure
