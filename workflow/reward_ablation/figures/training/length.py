"""Figure: completion length over training."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pyarrow.compute as pc
from matplotlib.figure import Figure

from reward_ablation.analysis.reading import read_rows
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend, arm_groups, draw_steps, panel_title, seeds_note
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import WIDTH

#: How the figure reads a table that has millions of rows in a large study.
READERS = {
    "rewards_by_step": partial(
        read_rows,
        columns=["arm", "seed", "step", "quantity", "mean"],
        where=pc.field("quantity").isin(["tokens", "truncated"]),
        coded=["arm", "quantity"],
    )
}


def length(rewards_by_step: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the mean completion tokens, and below them the share of completions that the length limit cut off."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    groups = arm_groups(study)
    figure = Figure(figsize=(WIDTH, 4.2))
    rows = figure.subplots(2, len(groups), squeeze=False, sharex=True, sharey="row", height_ratios=[3, 2])
    labels = {"tokens": "completion tokens", "truncated": "truncated share"}
    for row, (quantity, label) in zip(rows, labels.items(), strict=True):
        table = rewards_by_step[rewards_by_step["quantity"] == quantity]
        draw_steps(zip(row, groups, strict=True), table, "mean", study, rewards_by_step["step"])
        row[0].set_ylabel(label)
    for top, arms in zip(rows[0], groups, strict=True):
        top.set_xlabel("")
        panel_title(top, "", study, arms)
    # Without any truncation, the axis still needs a height.
    highest = rewards_by_step.loc[rewards_by_step["quantity"] == "truncated", "mean"].max()
    rows[1, 0].set_ylim(0, min(1.02, max(0.05, 1.1 * highest)))
    add_arm_legend(figure, study, seeds_note(study, rewards_by_step["step"]))
    return figure
