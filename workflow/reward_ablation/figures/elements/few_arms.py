"""Which arms of a study with many a figure shows, and how it draws the others: as a distribution, in grey."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import ALL_ARMS, StudyFile

#: Most arms of which a figure shows each one. Of more, it shows this many from each end of their order.
MOST_ARMS, FROM_EACH_END = 36, 8

#: Quantiles of the other arms: the light grey is from the first to the last, the dark grey the middle 80 %.
QUANTILES = [0.0, 0.1, 0.5, 0.9, 1.0]

#: Greys of the range of the other arms, of their middle, and of their median.
LIGHT, DARK, MEDIAN = "#ececec", "#c9c9c9", "#7a7a7a"


def few_arms(study: StudyFile, evaluation_by_arm: pd.DataFrame) -> StudyFile:
    """The study with the arms that figures show: all, or the best and the worst by the primary question's metric.

    The baseline and the control are always shown. The runs of the study stay: they tell how many other arms there are.
    """
    if len(study.arms) <= MOST_ARMS:
        return study
    primary = study.primary
    labels = {"dataset": primary.dataset, "mode": primary.mode, "metric": primary.metric}
    of_question = (evaluation_by_arm[list(labels)] == pd.Series(labels)).all(axis=1)
    values = evaluation_by_arm[of_question].set_index("arm")["estimate"]
    return with_ends(study, values if study.primary_is_better_high else -values)


def with_ends(study: StudyFile, values: pd.Series) -> StudyFile:
    """The study with the arms of the highest and the lowest values, the baseline and the control; highest first."""
    if len(study.arms) <= MOST_ARMS:
        return study
    known = values.reindex(study.arm_names).dropna().sort_values(ascending=False, kind="stable").index
    shown = {*known[:FROM_EACH_END], *known[-FROM_EACH_END:], study.baseline, study.control}
    arms = {arm.name: arm for arm in study.arms if arm.name in shown}
    ordered = {name: arms[name] for name in known if name in arms} | arms
    return study.model_copy(update={"arms": list(ordered.values())})


def others(study: StudyFile) -> int:
    """How many arms with runs a study that was given few arms does not show."""
    return max(0, len({run.arm for run in study.runs}) - len(study.arms))


def rows_of_others(table: pd.DataFrame, study: StudyFile, column: str = "arm") -> pd.DataFrame:
    """Rows of a table of the arms that are not shown."""
    if not others(study):
        return table.iloc[:0]
    return table[~table[column].isin([*study.arm_names, "base", ALL_ARMS])]


def with_others(study: StudyFile, arms: list[str]) -> list[str]:
    """Names of rows: the arms, and below them the others, which no arm is named like."""
    return [*arms, f"{others(study):,} other arms"] if others(study) else arms


def others_note(study: StudyFile, by: str | None = None, dots: bool = False) -> str:
    """Say which arms are shown and what the grey is; empty where all are shown.

    `by` is what the arms are ordered by, if not by the primary question; `dots` says that the others are dots.
    """
    if not others(study):
        return ""
    primary = study.primary
    question = f"{name_of(primary.metric)} ({primary.dataset}, {primary.mode})"
    by = by or f"best and the {FROM_EACH_END} worst by {question}"
    always = "the baseline and the control" if study.control else "the baseline"
    shown = f" Arms: the {FROM_EACH_END} {by}, and {always}, in this order. Grey"
    if dots:
        return f"{shown} dots: the other {others(study):,}, which the tables have."
    return (
        f"{shown}: the other {others(study):,}, light from the lowest to the highest, dark the middle 80\u00a0%, with "
        "their median; the tables have each."
    )


def draw_others_in_row(axes: Axes, values: pd.Series, place: float) -> None:
    """Draw the distribution of the other arms' estimates in a row."""
    known = values.dropna()
    if known.empty:
        return
    lowest, low, middle, high, highest = np.quantile(known.to_numpy(dtype=float), QUANTILES)
    axes.barh(place, highest - lowest, 0.6, lowest, color=LIGHT, zorder=0.7)
    axes.barh(place, high - low, 0.6, low, color=DARK, zorder=0.8)
    axes.plot([middle, middle], [place - 0.3, place + 0.3], color=MEDIAN, linewidth=1.2, zorder=0.9)


def draw_others_at(axes: Axes, values: list[np.ndarray], width: float) -> None:
    """Draw the distribution of the other arms' estimates at each whole number of the x axis."""
    for place, at in enumerate(values):
        known = at[~np.isnan(at)]
        if len(known):
            lowest, low, middle, high, highest = np.quantile(known, QUANTILES)
            axes.bar(place, highest - lowest, width, lowest, color=LIGHT, zorder=0.4)
            axes.bar(place, high - low, width, low, color=DARK, zorder=0.5)
            axes.plot([place - width / 2, place + width / 2], [middle, middle], color=MEDIAN, linewidth=1, zorder=0.6)


def draw_band_of_others(axes: Axes, curves: pd.DataFrame) -> None:
    """Draw the distribution of the other arms' means at each x. `curves` has the columns x and mean."""
    if curves["mean"].notna().any():
        bands = curves.dropna(subset="mean").groupby("x")["mean"].quantile(np.array(QUANTILES)).unstack()
        lowest, low, middle, high, highest = bands.to_numpy(dtype=float).T
        style: dict[str, Any] = {"linewidth": 0}
        axes.fill_between(bands.index, lowest, highest, color=LIGHT, zorder=0.4, **style)
        axes.fill_between(bands.index, low, high, color=DARK, zorder=0.5, **style)
        axes.plot(bands.index, middle, color=MEDIAN, linewidth=1, zorder=0.6, label="other arms")
