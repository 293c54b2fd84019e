"""Figure: what the similarity of the components' gradients is made of."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import arm_groups, curve_panels, finish, panel_title
from reward_ablation.figures.elements.style import STYLE, looks, page_of_words
from reward_ablation.figures.gradients.similarity_layers import estimates_note
from reward_ablation.figures.gradients.similarity_steps import alone, cosine_axis, of_pair, why_not_measured
from reward_ablation.gram.similarity import ALL_LAYERS

#: The cosine and its parts, with their names below a panel.
LABELS = {
    "cosine": "cosine",
    "self": "self",
    "same_prompt": "same prompt",
    "cross_prompt": "across prompts",
    "across_blocks": "between batches",
}

#: Smallest range of the y axis on either side of zero.
LEAST_RANGE = 0.2

#: Share of the room of a part that the points of its arms take.
SPREAD = 0.7


def shown_parts(estimates: pd.DataFrame) -> list[str]:
    """The cosine and its parts; terms between micro-batches and processes only where there are some."""
    across = estimates[estimates["part"] == "across_blocks"]
    return [part for part in LABELS if part != "across_blocks" or (across["estimate"].fillna(0) != 0).any()]


def draw_parts(axes: Axes, estimates: pd.DataFrame, study: StudyFile, arms: list[str], parts: list[str]) -> None:
    """Draw a point with its interval for each part and arm, the arms of one part side by side.

    Parameters
    ----------
    estimates : DataFrame
        arm, part, estimate, low and high of one pair of components.
    """
    look = looks(study)
    for place, arm in enumerate(arms):
        rows = estimates[estimates["arm"] == arm].set_index("part").reindex(parts)
        values, low, high = rows[["estimate", "low", "high"]].to_numpy(dtype=float).T
        shift = SPREAD * ((place + 0.5) / len(arms) - 0.5)
        axes.errorbar(
            np.arange(len(parts)) + shift,
            values,
            yerr=np.maximum([values - low, high - values], 0.0),  # a mean may lie outside by a rounding error
            color=look[arm].colour,
            marker=look[arm].marker,
            markersize=3.5 if len(arms) <= 4 else 2.8,
            linestyle="none",
            elinewidth=1.0,
            label=arm,
        )


def part_axis(axes: Axes, parts: list[str], limit: float) -> None:
    """Name the parts, set the cosine apart from them, and show the range from -limit to limit."""
    cosine_axis(axes)
    axes.set_ylim(-limit, limit)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    if len(parts) > 4:  # names side by side would run into each other
        axes.set_xticks(range(len(parts)), [LABELS[part] for part in parts], rotation=90)
    else:
        axes.set_xticks(range(len(parts)), [LABELS[part].replace(" ", "\n") for part in parts])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.axvspan(-0.5, 0.5, color="#f0f0f0", linewidth=0, zorder=0)
    axes.set_xlim(-0.5, len(parts) - 0.5)


@rc_context(STYLE)
def similarity_parts(similarity_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Panels for each pair of components: cosine over all parameters and the parts that add up to it, by arm."""
    heading = "Parts of the gradient similarity of components"
    estimates = alone(similarity_by_arm[similarity_by_arm["layer"] == ALL_LAYERS])
    if estimates.empty:
        return page_of_words(heading, why_not_measured(study))
    parts = shown_parts(estimates)
    ends = estimates[["estimate", "low", "high"]].astype(float).abs().max().max()
    limit = 1.05 * np.nanmax([LEAST_RANGE, ends])
    pairs = list(combinations(study.components, 2))
    figure, rows = curve_panels(study, len(pairs), height=2.2 if len(parts) <= 4 else 2.8)
    for row, pair in zip(rows, pairs, strict=True):
        for panel, arms in zip(row, arm_groups(study), strict=True):
            draw_parts(panel, of_pair(estimates, *pair), study, arms, parts)
            part_axis(panel, parts, limit)
            panel_title(panel, " · ".join(pair), study, arms)
        row[0].set_ylabel("cosine of gradients")
    between = ", and pairs between micro-batches or processes" if "across_blocks" in parts else ""
    note = (
        "The cosine (grey) is the sum of its parts: each completion with itself (what the advantages alone give), with "
        f"others of its prompt, and with those of other prompts{between}. "
        f"{estimates_note(study, estimates, 'Points', 'Bars')}"
    )
    finish(figure, study, heading, note)
    return figure
