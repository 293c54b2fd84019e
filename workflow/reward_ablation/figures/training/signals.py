"""Figure: the training signal in the rollouts of each step."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pyarrow.compute as pc
from matplotlib.figure import Figure

from reward_ablation.analysis.reading import read_rows
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend, curve_panels, draw_steps, no_total, seeds_note
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import zero_line

#: Most points of a curve. A step has few groups, so neighbouring steps are averaged.
MOST_POINTS = 40

#: Quantities that the figure draws.
QUANTITIES = ["no_signal", "tokens_correct", "tokens_wrong", "advantage_share", "covariance"]

#: How the figure reads a table that has millions of rows in a large study.
READERS = {
    "signals_by_step": partial(
        read_rows,
        columns=["arm", "seed", "step", "quantity", "component", "value"],
        where=pc.field("quantity").isin(QUANTITIES),
        coded=["arm", "quantity", "component"],
    )
}


def shown_signals(signals_by_step: pd.DataFrame, study: StudyFile) -> list[tuple[str, str | None, str, str]]:
    """Quantity, component, title and y label of each panel. Lengths are left out if correctness is not known."""
    panels: list[tuple[str, str | None, str, str]] = [
        ("no_signal", None, "groups with zero advantage", "share of groups")
    ]
    scored = signals_by_step.loc[signals_by_step["quantity"] == "tokens_correct", "component"]
    if not scored.empty:
        panels += [
            ("tokens_correct", scored.iloc[0], "length of right completions", "tokens"),
            ("tokens_wrong", scored.iloc[0], "length of wrong completions", "tokens"),
        ]
    panels += [("advantage_share", name, f"{name}: share of the advantage", "share") for name in study.components]
    panels += [("covariance", name, f"{name}: covariance with the total", "covariance") for name in study.components]
    return panels


def signals(signals_by_step: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw over steps the groups with zero advantage, lengths by correctness, and each component's signals."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    panels = shown_signals(signals_by_step, study)
    steps = signals_by_step["step"]
    figure, rows = curve_panels(study, [panel[2] for panel in panels], [panel[3] for panel in panels], height=1.9)
    of_all = signals_by_step["component"].isna()
    for row, (quantity, component, *_) in zip(rows, panels, strict=True):
        of_panel = of_all if component is None else signals_by_step["component"] == component
        table = signals_by_step[(signals_by_step["quantity"] == quantity) & of_panel]
        draw_steps(row, table, "value", study, steps, MOST_POINTS)
        for panel, _ in row:
            if quantity in ("no_signal", "advantage_share"):
                panel.set_ylim(-0.03, 1.03)
            if quantity == "covariance":
                zero_line(panel)
    note = (
        f"{seeds_note(study, steps, MOST_POINTS)} Covariance: of a component's score with the weighted total within "
        "groups. Above 0, training raises the component to first order. Its scale depends on the arm's weights."
    )
    if study.arms_with_methods:
        note += f" {no_total(study)}"
    add_arm_legend(figure, study, note)
    return figure
