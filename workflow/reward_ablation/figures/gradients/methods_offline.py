"""Figure: the steps that the arms' combinations would have taken on the baseline's completions."""

from __future__ import annotations

from math import ceil

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import over_words
from reward_ablation.figures.elements.few_arms import MOST_ARMS as MOST_SHOWN
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import (
    WIDTH,
    arm_looks,
    draw_points,
    legend_below,
    page_of_words,
    panel_grid,
    round_ticks,
    wrapped,
)
from reward_ablation.figures.gradients.similarity_steps import switched_off

#: Most arms in the figure.
MOST_ARMS = 24

#: Most characters in a line of an arm's name.
NAME_WIDTH = 20


def draw_methods(axes: Axes, rows: pd.DataFrame, study: StudyFile, arms: list[str]) -> None:
    """Draw estimates with their intervals, one arm per row from top to bottom."""
    by_arm, look = rows.set_index("method"), arm_looks(study)
    for row_number, arm in enumerate(arms):
        if arm in by_arm.index:
            estimate, low, high = by_arm.loc[[arm], ["estimate", "low", "high"]].to_numpy(dtype=float)[0]
            draw_points(axes, look[arm], estimate, row_number, across=(low, high), linestyle="none", capsize=1.5)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.set_yticks(range(len(arms)), [wrapped(arm, NAME_WIDTH) for arm in arms])
    round_ticks(axes.xaxis, 4)


def methods_offline(methods_offline: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the step of each arm's combination beside the step that the baseline trained.

    Panels are the cosine of the two steps, the relative length, and for each component the difference of the effects.
    """
    if methods_offline["estimate"].notna().sum() == 0:
        not_stored = "the baseline's stored Gram matrices do not say which steps other combinations would have taken"
        return page_of_words(switched_off(study) or not_stored)
    known = [name for name in study.arm_names if (methods_offline["method"] == name).any()]
    arms = [name for name in reduced_to_shown_arms(study, evaluation_by_arm).arm_names if name in known][:MOST_ARMS]
    gains = [name for name in study.components if (methods_offline["component"] == name).any()]
    panels: list[tuple[str, str | None, str, float]] = [
        ("cosine", None, "cosine to the trained step", 1.0),
        ("length", None, "length relative to the trained step", 1.0),
    ]
    panels += [("gain", name, f"effect on {name} minus the trained step's", 0.0) for name in gains]
    columns = min(len(panels), 3)
    lines = max(wrapped(arm, NAME_WIDTH).count("\n") + 1 for arm in arms)
    height = 0.75 + (0.04 + 0.13 * lines) * len(arms)
    figure = Figure(figsize=(WIDTH, ceil(len(panels) / columns) * height + 0.4))
    for number, (axes, (quantity, component, title, value_of_trained)) in enumerate(
        zip(panel_grid(figure, len(panels), columns), panels, strict=True)
    ):
        rows = methods_offline[methods_offline["quantity"] == quantity]
        rows = rows[rows["component"].isna() if component is None else rows["component"] == component]
        axes.axvline(value_of_trained, color="black", linewidth=0.8, zorder=1)
        draw_methods(axes, rows, study, arms)
        axes.set_title(wrapped(title, 30), loc="left")
        if number % columns:
            axes.set_yticklabels([])
    legend_below(figure, [], note(methods_offline, study, arms, len(known)))
    return figure


def note(table: pd.DataFrame, study: StudyFile, arms: list[str], known: int) -> str:
    """Say what is drawn."""
    seeds, steps, level = int(table["seeds"].max()), int(table["steps"].max()), f"{100 * study.confidence:g}\u00a0%"
    words = [
        f"Completions and policy: {study.baseline}, {seeds} seed{'s' * (seeds > 1)}, up to {steps} measured steps of "
        "each seed; another policy would have sampled other completions. Effects: to first order, per unit of a step's "
        f"length, on other prompts. Bars: intervals ({level}, {over_words(table['interval'])}).",
        *same_order(table),
    ]
    if known > len(arms):
        chosen = "first" if len(study.arms) <= MOST_SHOWN else "best and worst"
        words.append(f"Shown: the {chosen} {len(arms)} of {known} arms.")
    return " ".join(words)


def same_order(table: pd.DataFrame) -> list[str]:
    """Say whether the arms' weights alone put them in the same order as the computed gains."""
    ranks = [
        f"{component} {of_component['by_weights'].corr(of_component['estimate'], method='spearman'):.2f}"
        for component, of_component in table[table["quantity"] == "gain"].groupby("component", sort=False)
        if of_component["by_weights"].nunique() > 1 and of_component["estimate"].nunique() > 1
    ]
    rule = "Rank correlation of these differences with each component's share of the weights, a rule without gradients"
    return [f"{rule}: {', '.join(ranks)}."] if ranks else []
