"""Figure: evaluation of the final models."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels as metric_panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import (
    base_legend,
    datasets_and_modes,
    draw_rows,
    name_rows,
    row_height,
    select,
    share_axis,
)
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms, with_others
from reward_ablation.figures.elements.style import WIDTH


def evaluation(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a row of panels per data set and mode: the main metric, the other metrics, and tokens last."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    arms = with_others(study, study.arm_names)
    rows = datasets_and_modes(evaluation_by_arm, study)
    figure = Figure(figsize=(WIDTH, len(rows) * (row_height(arms) * len(arms) + 0.75) + 0.4))
    metrics = metric_panels(study)
    widths = [5, *[3] * (len(metrics) - 1)]
    grid = figure.subplots(len(rows), len(metrics), squeeze=False, sharey="row", width_ratios=widths)
    for panels, (dataset, mode, questions) in zip(grid, rows, strict=True):
        for panel, (metric, label) in zip(panels, metrics.items(), strict=True):
            draw_rows(panel, select(evaluation_by_arm, dataset, mode, metric), study, arms)
            panel.set_xlabel(label)
            share_axis(panel, study, metric)
        name_rows(panels[0], arms)
        panels[0].set_title(f"{dataset}, {mode}: {questions:,} questions", loc="left")
    base_legend(figure, evaluation_by_arm, study)
    return figure
