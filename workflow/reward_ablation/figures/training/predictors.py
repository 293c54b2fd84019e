"""Figure: does what is measured at a step tell what happens to a component afterwards?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import arm_groups, curve_panels, finish, panel_title
from reward_ablation.figures.elements.style import STYLE, looks, page_of_words

#: Predictors in their order, with their names below a panel.
LABELS = {
    "covariance": "covariance with the total",
    "covariance_with_advantage": "covariance with advantage",
    "variance": "variance in groups",
    "no_signal": "groups without signal",
    "gradient_cosine": "cosine with the step",
    "gradient_effect": "effect on other prompts",
}

#: Share of the room of a predictor that the points of its arms take.
SPREAD = 0.7


def draw_correlations(axes: Axes, table: pd.DataFrame, study: StudyFile, arms: list[str], kinds: list[str]) -> None:
    """Draw each arm's correlations and intervals side by side at each predictor."""
    look = looks(study)
    for place, arm in enumerate(arms):
        rows = table[table["arm"] == arm].set_index("predictor").reindex(kinds)
        values, low, high = rows[["estimate", "low", "high"]].to_numpy(dtype=float).T
        axes.errorbar(
            np.arange(len(kinds)) + SPREAD * ((place + 0.5) / len(arms) - 0.5),
            values,
            yerr=np.maximum([values - low, high - values], 0.0),
            color=look[arm].colour,
            marker=look[arm].marker,
            markersize=3.5 if len(arms) <= 4 else 2.8,
            linestyle="none",
            elinewidth=1.0,
            label=arm,
        )
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)
    axes.set_xticks(range(len(kinds)), [LABELS[kind] for kind in kinds], rotation=90)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(kinds) - 0.5)
    axes.set_ylim(-1, 1)


@rc_context(STYLE)
def predictors(predictors: pd.DataFrame, study: StudyFile) -> Figure:
    """Panels for each component: rank correlation of each predictor with the slope of the score afterwards, by arm."""
    heading = "What tells how a component changes afterwards"
    if predictors.empty:
        return page_of_words(heading, "nothing to tell: too few steps, or nothing that varies over them")
    kinds = [kind for kind in LABELS if (predictors["predictor"] == kind).any()]
    figure, rows = curve_panels(study, len(study.components), height=3.1)
    for row, component in zip(rows, study.components, strict=True):
        for panel, arms in zip(row, arm_groups(study), strict=True):
            draw_correlations(panel, predictors[predictors["component"] == component], study, arms, kinds)
            panel_title(panel, component, study, arms)
        row[0].set_ylabel("rank correlation")
    level, window = f"{100 * study.confidence:g}\u00a0%", predictors["window"].max()
    seeds = "of the one seed" if predictors["seeds"].max() == 1 else f"over {predictors['seeds'].max()} seeds"
    note = (
        f"Points: rank correlation over steps, {seeds}, of what is measured at a step with the slope of the "
        f"component's mean score over the {window} steps after it. Bars: {level} block bootstrap interval over seeds "
        "and steps. Both drift as training goes on: a correlation is no proof of a cause."
    )
    finish(figure, study, heading, note)
    return figure
