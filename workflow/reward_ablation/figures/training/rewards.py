"""Figure: reward components over training."""

from __future__ import annotations

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import (
    arm_groups,
    curve_panels,
    draw_arms,
    finish,
    panel_title,
    seeds_note,
    step_axis,
    steps_per_point,
    thinned,
)
from reward_ablation.figures.elements.style import STYLE


@rc_context(STYLE)
def rewards(rewards_by_step: pd.DataFrame, study: StudyFile) -> Figure:
    """Panels for each component and for the total: mean over the rollouts of a step, by arm."""
    quantities = [*study.components, "total"]
    figure, rows = curve_panels(study, len(quantities), height=2.2)
    for row, quantity in zip(rows, quantities, strict=True):
        table = thinned(rewards_by_step[rewards_by_step["quantity"] == quantity], "mean")
        for panel, arms in zip(row, arm_groups(study), strict=True):
            draw_arms(panel, table, study, arms, "step", "mean")
            panel_title(panel, quantity, study, arms)
            step_axis(panel, rewards_by_step["step"])
        row[0].set_ylabel("weighted sum" if quantity == "total" else "raw score")
    note = (
        f"{seeds_note(study, steps_per_point(rewards_by_step['step']))} Raw scores are before weighting; the total is "
        "under each arm's own weights, so that its level cannot be compared between arms."
    )
    finish(figure, study, "Rewards over training", note)
    return figure
