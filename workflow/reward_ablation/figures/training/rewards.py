"""Figure: scores of the components, their weighted total, and the length of completions over training."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend, curve_panels, draw_steps, seeds_note
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms

#: How the figure reads a table that has millions of rows in a large study.
READERS = {
    "rewards_by_step": partial(
        read_parquet, columns=["arm", "seed", "step", "quantity", "mean"], coded=["arm", "quantity"]
    )
}


#: Quantities of length, with their titles. A component may be named `length`, too.
LENGTHS = {"tokens": "completion length", "truncated": "cut off by the limit"}


def rewards(rewards_by_step: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each component, the total and the length of completions the mean over the rollouts of a step, by arm."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    quantities = [*study.components, "total", *LENGTHS]
    labels = [*["raw score"] * len(study.components), "weighted sum", "tokens", "share"]
    titles = [LENGTHS.get(quantity, quantity) for quantity in quantities]
    figure, rows = curve_panels(study, titles, labels, height=1.9)
    for row, quantity in zip(rows, quantities, strict=True):
        table = rewards_by_step[rewards_by_step["quantity"] == quantity]
        draw_steps(row, table, "mean", study, rewards_by_step["step"])
    # Without any truncation, the axis still needs a height.
    highest = rewards_by_step.loc[rewards_by_step["quantity"] == "truncated", "mean"].max()
    for panel, _ in rows[-1]:
        panel.set_ylim(0, min(1.02, max(0.05, 1.1 * highest)))
    note = (
        f"{seeds_note(study, rewards_by_step['step'])} Raw scores are before weighting. The total uses each arm's own "
        "weights, so its level cannot be compared between arms."
    )
    if study.arms_with_methods:
        note += f" Arms that are not trained on the total: {', '.join(study.arms_with_methods)}."
    add_arm_legend(figure, study, note)
    return figure
