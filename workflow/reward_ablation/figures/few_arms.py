"""Figures of studies with many arms: which arms are shown, and how the distribution of the others is drawn in grey.

The modules of single figures call it. Most choose arms by the primary question, `cost` chooses by hours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import ALL_ARMS, StudyFile

#: A figure shows each arm of a study with at most 36 arms. Of more arms, it shows 8 from each end of their order.
MOST_ARMS, FROM_EACH_END = 36, 8

#: Quantiles of the other arms. Light grey is from the first to the last, dark grey is the middle 80 %.
QUANTILES = [0.0, 0.1, 0.5, 0.9, 1.0]

#: Colours of the range of the other arms, of the middle 80 % of them, and of their median.
LIGHT, DARK, MEDIAN = "#ececec", "#c9c9c9", "#7a7a7a"


def reduced_to_shown_arms(study: StudyFile, evaluation_by_arm: pd.DataFrame) -> StudyFile:
    """Reduce a study to the arms that figures show, chosen by the primary metric; all its runs stay."""
    if len(study.arms) <= MOST_ARMS:
        return study
    primary = study.primary
    labels = {"dataset": primary.dataset, "mode": primary.mode, "metric": primary.metric}
    of_question = (evaluation_by_arm[list(labels)] == pd.Series(labels)).all(axis=1)
    values = evaluation_by_arm[of_question].set_index("arm")["estimate"]
    return reduced_to_ends(study, values if study.primary_is_better_high else -values)


def reduced_to_ends(study: StudyFile, values: pd.Series) -> StudyFile:
    """Reduce a study to arms with the highest and lowest of `values`, baseline and control; highest first."""
    if len(study.arms) <= MOST_ARMS:
        return study
    known = values.reindex(study.arm_names).dropna().sort_values(ascending=False, kind="stable").index
    shown = {*known[:FROM_EACH_END], *known[-FROM_EACH_END:], study.baseline, study.control}
    arms = {arm.name: arm for arm in study.arms if arm.name in shown}
    ordered = {name: arms[name] for name in known if name in arms} | arms
    return study.model_copy(update={"arms": list(ordered.values())})


def count_of_others(study: StudyFile) -> int:
    """Number of arms that have runs but are not shown, because `reduced_to_ends` removed them from the study."""
    return max(0, len({run.arm for run in study.runs}) - len(study.arms))


def rows_of_others(table: pd.DataFrame, study: StudyFile) -> pd.DataFrame:
    """Rows of a table that belong to the arms that are not shown."""
    if not count_of_others(study):
        return table.iloc[:0]
    return table[~table["arm"].isin([*study.arm_names, "base", ALL_ARMS])]


def with_others(study: StudyFile, arms: list[str]) -> list[str]:
    """Names of rows: the arms, then a row for the others if there are any. No arm has a name with a blank."""
    return [*arms, f"{count_of_others(study):,} other arms"] if count_of_others(study) else arms


def others_note(study: StudyFile, by: str | None = None, in_this_order: bool = True) -> str:
    """Say which arms are shown, by what and whether `in_this_order`, and what grey means; empty if all are."""
    if not count_of_others(study):
        return ""
    primary = study.primary
    question = f"{name_of(primary.metric)} ({primary.dataset}, {primary.mode})"
    by = by or f"best and the {FROM_EACH_END} worst by {question}"
    always = "the baseline and the control" if study.control else "the baseline"
    grey = "light: from the lowest to the highest; dark: the middle 80\u00a0%; line: the median"
    return (
        f" Arms: the {FROM_EACH_END} {by}, and {always}{', in this order' * in_this_order}. Grey: the other "
        f"{count_of_others(study):,} arms ({grey}); the tables have their values."
    )


def draw_others_in_row(axes: Axes, values: pd.Series, row: float) -> None:
    """Draw the distribution of the other arms' estimates across the row at y = `row`."""
    known = values.dropna()
    if len(known):
        lowest, low, middle, high, highest = np.quantile(known.to_numpy(dtype=float), QUANTILES)
        axes.barh([row] * 2, [highest - lowest, high - low], 0.6, [lowest, low], color=[LIGHT, DARK], zorder=0.7)
        axes.plot([middle, middle], [row - 0.3, row + 0.3], color=MEDIAN, linewidth=1.2, zorder=0.9)


def draw_others_at(axes: Axes, values: list[np.ndarray], width: float) -> None:
    """Draw the distribution of the other arms' estimates: the n-th array of `values` at x = n."""
    for x, estimates in enumerate(values):
        known = estimates[~np.isnan(estimates)]
        if len(known):
            lowest, low, middle, high, highest = np.quantile(known, QUANTILES)
            axes.bar([x] * 2, [highest - lowest, high - low], width, [lowest, low], color=[LIGHT, DARK], zorder=0.4)
            axes.plot([x - width / 2, x + width / 2], [middle, middle], color=MEDIAN, linewidth=1, zorder=0.6)


def draw_band_of_others(axes: Axes, curves: pd.DataFrame) -> None:
    """Draw the distribution of the other arms' means at each x. `curves` has the columns x and mean."""
    if curves["mean"].notna().any():
        bands = curves.dropna(subset="mean").groupby("x")["mean"].quantile(np.array(QUANTILES)).unstack()
        lowest, low, middle, high, highest = bands.to_numpy(dtype=float).T
        style: dict[str, Any] = {"linewidth": 0}
        axes.fill_between(bands.index, lowest, highest, color=LIGHT, zorder=0.4, **style)
        axes.fill_between(bands.index, low, high, color=DARK, zorder=0.5, **style)
        axes.plot(bands.index, middle, color=MEDIAN, linewidth=1, zorder=0.6, label="other arms")
