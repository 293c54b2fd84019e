"""Figure: length of completions over training."""

from __future__ import annotations

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import (
    arm_groups,
    draw_arms,
    finish,
    panel_title,
    seeds_note,
    step_axis,
    steps_per_point,
    thinned,
)
from reward_ablation.figures.elements.style import STYLE, WIDTH


@rc_context(STYLE)
def length(rewards_by_step: pd.DataFrame, study: StudyFile) -> Figure:
    """Mean completion tokens, and below the share of completions that the length limit cut off."""
    groups = arm_groups(study)
    figure = Figure(figsize=(WIDTH, 4.2))
    rows = figure.subplots(2, len(groups), squeeze=False, sharex=True, sharey="row", height_ratios=[3, 2])
    labels = {"tokens": "completion tokens", "truncated": "truncated share"}
    for row, (quantity, label) in zip(rows, labels.items(), strict=True):
        table = thinned(rewards_by_step[rewards_by_step["quantity"] == quantity], "mean")
        for panel, arms in zip(row, groups, strict=True):
            draw_arms(panel, table, study, arms, "step", "mean")
        row[0].set_ylabel(label)
    for top, bottom, arms in zip(*rows, groups, strict=True):
        if len(groups) > 1:
            panel_title(top, "", study, arms)
        step_axis(bottom, rewards_by_step["step"])
    # Shares start at zero; a study without truncation still gets an axis with a height.
    highest = rewards_by_step.loc[rewards_by_step["quantity"] == "truncated", "mean"].max()
    rows[1, 0].set_ylim(0, min(1.02, max(0.05, 1.1 * highest)))
    finish(
        figure, study, "Completion length over training", seeds_note(study, steps_per_point(rewards_by_step["step"]))
    )
    return figure
