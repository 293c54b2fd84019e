"""Figure: predictors of later change in each component."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend, curve_panels, no_total
from reward_ablation.figures.elements.estimates import draw_side_by_side
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import page_of_words, zero_line

#: Predictors in the order in which they are drawn, with their labels on the x axis.
LABELS = {
    "covariance": "covariance with total reward",
    "covariance_with_advantage": "covariance with advantage",
    "variance": "variance in groups",
    "no_signal": "groups with zero advantage",
    "gradient_cosine": "cosine to the training step",
    "gradient_effect": "effect on other prompts",
}


def predictors(predictors: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each component the rank correlation of each predictor with the later slope of the score, by arm."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    if predictors.empty:
        return page_of_words("no correlations: too few steps, or nothing varies over them")
    labels = {kind: label for kind, label in LABELS.items() if (predictors["predictor"] == kind).any()}
    known = [name for name in study.components if (predictors["component"] == name).any()]
    figure, rows = curve_panels(study, known, "rank correlation", height=3.1)
    for row, component in zip(rows, known, strict=True):
        for panel, arms in row:
            of_component = predictors[predictors["component"] == component]
            draw_side_by_side(panel, of_component, study, arms, "predictor", [*labels])
            zero_line(panel)
            panel.set_xticks(range(len(labels)), [*labels.values()], rotation=90)
            panel.set_ylim(-1, 1)
    level, window = f"{100 * study.confidence:g}\u00a0%", predictors["window"].max()
    seeds = "of the one seed" if predictors["seeds"].max() == 1 else f"over {predictors['seeds'].max()} seeds"
    note = (
        f"Points: rank correlation over steps, {seeds}, between the quantity on the x axis at a step and the slope of "
        f"the component's mean score over the next {window} steps. Bars: {level} block bootstrap intervals over seeds "
        "and steps. Quantity and slope may both drift during training: a correlation does not show a cause."
    )
    if study.arms_with_methods:
        note += f" {no_total(study)}"
    add_arm_legend(figure, study, note)
    return figure
