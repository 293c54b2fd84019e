"""Mean rewards at points of training and their changes, by arm.

A study in which nothing was evaluated compares those at the end of training.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from reward_ablation.analysis.study_file import StudyFile

#: Share of the steps around a point whose mean rewards stand for it.
AROUND = 0.1


class Change(NamedTuple):
    """Means over the seeds of an arm before and after, and the mean change with its interval; NaN where not known."""

    before: float
    after: float
    change: float
    low: float
    high: float
    seeds: int


class Pair(NamedTuple):
    """Values of a quantity at the two points, by (arm, seed)."""

    before: pd.Series
    after: pd.Series


def changes(pair: Pair, confidence: float) -> dict[str, Change]:
    """The change of each arm, with an interval by Student's t over seeds.

    One degree of freedom of the variance is borrowed from the other arms, since two
    seeds say little about how much seeds differ. There is no interval where an arm has one seed and nothing to borrow,
    or where no two seeds of the study differ.
    """
    difference = (pair.after - pair.before).dropna()
    by_arm = difference.groupby(level="arm", sort=False)
    degrees, means = by_arm.size() - 1, by_arm.mean()
    squares = ((difference - by_arm.transform("mean")) ** 2).groupby(level="arm", sort=False).sum()
    found = {}
    for arm in map(str, degrees.index):
        own, inside = int(degrees[arm]), difference.index[difference.index.get_level_values("arm") == arm]
        others = int(degrees.sum()) - own
        borrowed = float(squares.sum() - squares[arm]) / others if others else 0.0
        variance = (float(squares[arm]) + borrowed) / max(own + (others > 0), 1)
        quantile = stdtrit(own + (others > 0), (1 + confidence) / 2) if variance > 1e-18 else np.nan
        margin, change = float(quantile * np.sqrt(variance / (own + 1))), float(means[arm])
        before, after = (float(side.reindex(inside).mean()) for side in pair)
        found[arm] = Change(before, after, change, change - margin, change + margin, own + 1)
    return found


def around(rewards: pd.DataFrame, point: float) -> pd.Series:
    """Mean reward by (arm, seed) over a tenth of the steps: the first at 0, the last at 1, else around the point."""
    last = rewards.groupby(["arm", "seed"], observed=True)["step"].transform("max")
    place = (rewards["step"] - 1) / (last - 1).clip(lower=1)
    start = min(max(point - AROUND / 2, 0.0), 1 - AROUND)
    inside = rewards[(place >= start - 1e-9) & (place <= start + AROUND + 1e-9)]
    return inside.groupby(["arm", "seed"], observed=True)["mean"].mean().rename_axis(["arm", "seed"])


class EndOfTraining(NamedTuple):
    """Mean score of a component over the last tenth of an arm's steps and over seeds.

    The difference to the baseline is of runs with the same seed, with its interval over seeds. These are NaN for the
    baseline, and where the two arms share no seed.
    """

    arm: str
    component: str
    mean: float
    difference: float
    low: float
    high: float


def end_of_training(study: StudyFile, rewards_by_step: pd.DataFrame) -> list[EndOfTraining]:
    """The scores at the end of training, by component and then by arm.

    The intervals are those of `changes`, which borrows from the other arms how much seeds differ.
    """
    rows: list[EndOfTraining] = []
    for component in study.components:
        of_component = rewards_by_step[rewards_by_step["quantity"] == component]
        if of_component["mean"].notna().sum() == 0:
            continue
        ends = around(of_component, 1.0)
        of_baseline = ends[ends.index.get_level_values("arm") == study.baseline].droplevel("arm")
        others = ends[ends.index.get_level_values("arm") != study.baseline]
        before = of_baseline.reindex(others.index.get_level_values("seed")).set_axis(others.index)
        found = changes(Pair(before, others), study.confidence)
        for arm in study.arm_names:
            own = ends[ends.index.get_level_values("arm") == arm]
            if own.notna().any():
                change = found.get(arm)
                of_arm = (change.change, change.low, change.high) if change else (math.nan, math.nan, math.nan)
                rows.append(EndOfTraining(arm, component, float(own.mean()), *of_arm))
    return rows
