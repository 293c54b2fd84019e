"""Figure: what the steps of each arm do to each component, to first order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import POINT, name_rows, over_words, row_height
from reward_ablation.figures.elements.few_arms import draw_others_in_row, others_note, reduced_to_shown_arms
from reward_ablation.figures.elements.forest import limits
from reward_ablation.figures.elements.style import (
    WIDTH,
    arm_looks,
    draw_points,
    legend_below,
    page_of_words,
    panel_grid,
    round_ticks,
    wrapped,
    zero_line,
)
from reward_ablation.figures.gradients.similarity_steps import switched_off

#: Said in place of the figure.
NOTHING = (
    "the stored Gram matrices do not say what single completions contribute: rewards are on some tokens only,\n"
    "rollouts are clipped, or no two prompts share a micro-batch"
)


#: Look of the word beside a component that the arm does not train on.
TRACKED: dict[str, Any] = {"fontsize": 7, "color": "#404040", "ha": "right", "va": "bottom"}


def alignment(table: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a panel for each component, and in it the mean effect of each arm's steps with its interval."""
    every, study = table, reduced_to_shown_arms(study, evaluation_by_arm)
    if table["estimate"].notna().sum() == 0:
        return page_of_words(switched_off(study) or NOTHING)
    look, names = arm_looks(study), [*study.arm_names]
    hidden = [arm for arm in every["arm"].unique() if arm not in look]
    columns = min(3, len(study.components))
    rows = -(-len(study.components) // columns)
    labels = names + ["other arms"] * bool(hidden)
    figure = Figure(figsize=(WIDTH, rows * (row_height(labels) * len(labels) + 0.75) + 0.3))
    for number, (panel, component) in enumerate(
        zip(panel_grid(figure, len(study.components), columns), study.components, strict=True)
    ):
        effects = every[every["component"] == component].dropna(subset="estimate").set_index("arm")
        zero_line(panel, vertical=True)
        for row, arm in enumerate(names):
            if arm in effects.index:
                weight, estimate, *ends = effects.loc[arm, ["weight", "estimate", "low", "high"]].to_numpy(float)
                known = not np.isnan(ends).any()
                hollow = not known or bool(ends[0] <= 0 <= ends[1])
                across = ends if known else None
                draw_points(panel, look[arm], estimate, row, across=across, hollow=hollow, label=arm, **POINT)
                if not weight:
                    panel.annotate("tracked", (1, row), (0, 3), ("axes fraction", "data"), "offset points", **TRACKED)
        if hidden:
            draw_others_in_row(panel, effects["estimate"].reindex(hidden).dropna(), len(names))
        panel.set_xlim(limits(effects))
        panel.set_ylim(len(labels) - 0.5, -0.5)
        panel.set_title(wrapped(component, 24), loc="left")
        panel.set_xlabel("score per unit\nof the step's length")
        name_rows(panel, labels if number % columns == 0 else [""] * len(labels))
        round_ticks(panel.xaxis, 4)
    note = (
        "Filled: the interval leaves out 0. Tracked: the arm does not train on the component. Right of 0, a small step "
        "in the direction that the arm trained raises the component's expected score on prompts that the step did not "
        f"see; left of 0 it lowers it. Points: mean over {table['steps'].max()} measured steps or fewer. "
        f"Bars: {100 * study.confidence:g}\u00a0% intervals by {over_words(table['interval'])}.{others_note(study)}"
    )
    legend_below(figure, [], note)
    return figure
