"""Points with intervals: arms from top to bottom, the base model as a line with a band."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.style import BASE_COLOUR, looks, wrapped

#: Longest line of an arm's name beside its row.
NAME_WIDTH = 30


def select(evaluation_by_arm: pd.DataFrame, dataset: str, mode: str, metric: str) -> pd.DataFrame:
    """Estimates of all arms and the base model for one data set, mode and metric, by arm."""
    table = evaluation_by_arm
    rows = (table["dataset"] == dataset) & (table["mode"] == mode) & (table["metric"] == metric)
    return table[rows].set_index("arm")


def interval(rows: pd.DataFrame, arm: str) -> tuple[float, float, float]:
    """Estimate of an arm and the ends of its interval."""
    estimate, low, high = rows.loc[[arm], ["estimate", "low", "high"]].to_numpy(dtype=float)[0]
    return estimate, low, high


def draw_points(
    axes: Axes, rows: pd.DataFrame, study: StudyFile, arms: list[str], hollow: bool = False, shift: float = 0.0
) -> None:
    """Draw each arm's estimate and interval in its row, and the base model's behind them.

    Parameters
    ----------
    rows : DataFrame
        estimate, low, high by arm, and "base".
    arms : list of str
        From top to bottom.
    hollow, shift : bool, float
        How a second metric in the same panel is told apart: hollow points, rows lower by `shift`.
    """
    estimate, low, high = interval(rows, "base")
    axes.axvspan(low, high, color=BASE_COLOUR, alpha=0.1 if hollow else 0.2, linewidth=0, zorder=0.5)
    axes.axvline(estimate, color=BASE_COLOUR, linestyle="dotted" if hollow else "dashed", zorder=0.6)
    look = looks(study)
    for place, arm in enumerate(arms):
        estimate, low, high = interval(rows, arm)
        axes.errorbar(
            estimate,
            place + shift,
            # An estimate may lie outside a percentile interval by a rounding error.
            xerr=[[max(0.0, estimate - low)], [max(0.0, high - estimate)]],
            color=look[arm].colour,
            marker=look[arm].marker,
            markerfacecolor="white" if hollow else look[arm].colour,
            markersize=4.5,
            capsize=1.5,
            elinewidth=1.1,
            label=arm,
        )
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def draw_accuracies(
    axes: Axes, evaluation_by_arm: pd.DataFrame, study: StudyFile, dataset: str, mode: str, arms: list[str]
) -> None:
    """Draw strict accuracy filled, and lenient accuracy hollow a little below it."""
    lenient = select(evaluation_by_arm, dataset, mode, "accuracy_lenient")
    strict = select(evaluation_by_arm, dataset, mode, "accuracy_strict")
    draw_points(axes, lenient, study, arms, hollow=True, shift=0.17)
    draw_points(axes, strict, study, arms, shift=-0.17)


def share_axis(axes: Axes) -> None:
    """Give an axis of shares a width of at least a tenth, and no more room outside 0 to 1 than a point needs."""
    low, high = axes.get_xlim()
    spare = max(0.0, 0.1 - (high - low)) / 2
    low, high = low - spare, high + spare
    room = 0.04 * (high - low)
    shift = max(0.0, -room - low) - max(0.0, high - 1 - room)
    axes.set_xlim(low + shift, high + shift)


def name_rows(axes: Axes, arms: list[str]) -> None:
    """Write the arms' names beside their rows."""
    axes.set_yticks(range(len(arms)), [wrapped(arm, NAME_WIDTH) for arm in arms])


def row_height(arms: list[str]) -> float:
    """Inches that a row needs for its name."""
    lines = max(wrapped(arm, NAME_WIDTH).count("\n") + 1 for arm in arms)
    return max(0.22, 0.12 * lines + 0.06)


def kinds(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> list[tuple[str, str, int]]:
    """Every data set and mode with its number of questions, in the study's order."""
    table = evaluation_by_arm.groupby(["dataset", "mode"])["questions"].first()
    return [
        (dataset, mode, int(table[dataset, mode]))
        for dataset in study.datasets
        for mode in ("greedy", "sampled")
        if (dataset, mode) in table.index
    ]


def base_handles() -> list[Artist]:
    """Legend entries of the base model."""
    return [
        Line2D([], [], color=BASE_COLOUR, linestyle="dashed", label="base model"),
        Patch(facecolor=BASE_COLOUR, alpha=0.2, label="interval of the base model"),
    ]


def accuracy_handles() -> list[Artist]:
    """Legend entries of the two accuracies and the base model."""
    black: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 4.5, "linestyle": "none"}
    return [
        Line2D([], [], **black, label="filled: strict accuracy"),
        Line2D([], [], **black, markerfacecolor="white", label="hollow: lenient accuracy"),
        *base_handles(),
        Line2D([], [], color=BASE_COLOUR, linestyle="dotted", label="base model, lenient accuracy"),
    ]


def interval_note(study: StudyFile) -> str:
    """Say what points and intervals are."""
    seeds = len(study.seeds)
    level = f"{100 * study.confidence:g} % intervals"
    if seeds == 1:
        return f"Points: the one seed. Bars: {level} over questions only; nothing is known of other seeds."
    return f"Points: mean over {seeds} seeds. Bars: {level} over seeds and questions; base model: over questions."
