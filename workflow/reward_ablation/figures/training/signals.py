"""Figure: what the rollouts tell the training about each component."""

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

#: Points of a curve: a step has few groups, and neighbours are averaged.
MOST_POINTS = 40


def shown(signals_by_step: pd.DataFrame, study: StudyFile) -> list[tuple[str, str | None, str, str]]:
    """Panels: quantity, component, title and label of the y axis; lengths by correctness where they are known."""
    quantities = set(signals_by_step["quantity"])
    panels: list[tuple[str, str | None, str, str]] = [("no_signal", None, "without any advantage", "share of groups")]
    if "tokens_correct" in quantities:
        name = signals_by_step.loc[signals_by_step["quantity"] == "tokens_correct", "component"].iloc[0]
        panels += [
            ("tokens_correct", name, "length of right completions", "tokens"),
            ("tokens_wrong", name, "length of wrong completions", "tokens"),
        ]
    panels += [("advantage_share", name, f"{name}: share of the advantage", "share") for name in study.components]
    panels += [("covariance", name, f"{name}: covariance with the total", "covariance") for name in study.components]
    return panels


@rc_context(STYLE)
def signals(signals_by_step: pd.DataFrame, study: StudyFile) -> Figure:
    """Panels over steps by arm: groups without signal, lengths by correctness, and by component what it adds."""
    panels = shown(signals_by_step, study)
    figure, rows = curve_panels(study, len(panels), height=1.9)
    of_all = signals_by_step["component"].isna()
    for row, (quantity, component, name, label) in zip(rows, panels, strict=True):
        wanted = of_all if component is None else signals_by_step["component"] == component
        table = thinned(signals_by_step[(signals_by_step["quantity"] == quantity) & wanted], "value", MOST_POINTS)
        for panel, arms in zip(row, arm_groups(study), strict=True):
            draw_arms(panel, table, study, arms, "step", "value")
            panel_title(panel, name, study, arms)
            step_axis(panel, signals_by_step["step"])
            if quantity in ("no_signal", "advantage_share"):
                panel.set_ylim(-0.03, 1.03)
            if quantity == "covariance":
                panel.axhline(0, color="black", linewidth=0.8, zorder=1)
        row[0].set_ylabel(label)
    note = (
        f"{seeds_note(study, steps_per_point(signals_by_step['step'], MOST_POINTS))} Covariance of a component's score "
        "with the weighted total within groups: above 0, training raises the component to first order. Its scale is "
        "that of each arm's own weights."
    )
    finish(figure, study, "Training signal by step", note)
    return figure
