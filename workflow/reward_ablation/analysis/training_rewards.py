"""Mean rewards at points of training and their changes, by arm.

The table `reward_hacking`, the title of the figure of rewards and the report of a study without evaluation, which
compares arms by their scores alone, call it, so that all mean the same steps by the end of training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from reward_ablation.analysis.study_file import StudyFile

#: Share of the steps around a point of training (0 to 1) whose mean rewards stand for it.
AROUND = 0.1


def changes(
    before: pd.Series, after: pd.Series, confidence: float, same_runs: Mapping[str, str]
) -> dict[str, dict[Any, Any]]:
    """Before, after, change, its ends by Student's t and seeds by arm, from values by (arm, seed).

    One degree of freedom is borrowed from the other arms, since two seeds say little. Arms with one value in
    `same_runs` lend once, and not to each other. Ends are NaN for one seed with nothing to borrow, or equal seeds.
    """
    known = pd.DataFrame({"before": before, "after": after}).reindex(after.index).dropna()
    known["change"] = known["after"] - known["before"]
    by_arm = known.groupby(level="arm", sort=False)
    found = by_arm.mean().assign(seeds=by_arm.size())
    squares = ((known["change"] - by_arm["change"].transform("mean")) ** 2).groupby(level="arm", sort=False).sum()
    own = found["seeds"] - 1  # degrees of freedom
    names = np.array([same_runs.get(arm, arm) for arm in found.index], dtype=object)
    parts = pd.DataFrame({"own": own, "squares": squares}).groupby(names, sort=False)
    of_each, of_arm = parts.max(), parts.transform("max")  # the largest of several names of the same runs
    others = of_each["own"].sum() - of_arm["own"]
    borrowed = (of_each["squares"].sum() - of_arm["squares"]) / others.clip(lower=1) * (others > 0)
    degrees = own + (others > 0)
    variance = (squares + borrowed) / degrees.clip(lower=1)
    # A variance of rounding alone is no variance: then no two seeds differ, and there is no interval.
    margin = (stdtrit(degrees, (1 + confidence) / 2) * np.sqrt(variance / found["seeds"])).where(variance > 1e-18)
    ends = {"low": found["change"] - margin, "high": found["change"] + margin}
    return {str(arm): columns for arm, columns in found.assign(**ends).to_dict("index").items()}


def around(rewards: pd.DataFrame, point: float | pd.Series) -> pd.Series:
    """Mean reward by (arm, seed) over a tenth of the steps: the first at 0, the last at 1, else around the point."""
    # In a run of few steps the nearest ones count. 0 is the first step with rewards: an imported run may have few.
    steps = rewards.groupby(["arm", "seed"], observed=True)["step"]
    first, last = steps.transform("min"), steps.transform("max")
    position = (rewards["step"] - first) / (last - first).clip(lower=1)
    if isinstance(point, pd.Series):
        point = point.reindex(pd.MultiIndex.from_frame(rewards[["arm", "seed"]])).set_axis(rewards.index)
    distance = (position - np.clip(point, AROUND / 2, 1 - AROUND / 2)).abs()
    nearest = distance.groupby([rewards["arm"], rewards["seed"]], observed=True).transform("min")
    inside = rewards[distance <= nearest.clip(lower=AROUND / 2) + 1e-9]
    return inside.groupby(["arm", "seed"], observed=True)["mean"].mean().rename_axis(["arm", "seed"])


class EndOfTraining(NamedTuple):
    """Mean score of a component over the last tenth of steps and over seeds, and its difference to the baseline.

    By seed; NaN for the baseline and without a common seed; 0 with ends of NaN for an arm with the baseline's runs.
    """

    arm: str
    component: str
    mean: float
    difference: float
    low: float
    high: float


def end_of_training(study: StudyFile, rewards_by_step: pd.DataFrame) -> list[EndOfTraining]:
    """The scores at the end of training, by component and then by arm, with the intervals of `changes`."""
    rows: list[EndOfTraining] = []
    same = study.same_runs
    twins = [arm for arm in same if arm != study.baseline and same[arm] == same.get(study.baseline)]
    for component in study.components:
        of_component = rewards_by_step[rewards_by_step["quantity"] == component]
        if of_component["mean"].notna().sum() == 0:
            continue
        ends = around(of_component, 1.0)
        of_baseline = ends[ends.index.get_level_values("arm") == study.baseline].droplevel("arm")
        others = ends[~ends.index.get_level_values("arm").isin([study.baseline, *twins])]
        before = of_baseline.reindex(others.index.get_level_values("seed")).set_axis(others.index)
        found = changes(before, others, study.confidence, same)
        found |= {arm: {"change": 0.0, "low": math.nan, "high": math.nan} for arm in twins}
        for arm in study.arm_names:
            own = ends[ends.index.get_level_values("arm") == arm]
            if own.notna().any():
                change = found.get(arm)
                ends_of = [float(change[name]) for name in ("change", "low", "high")] if change else [math.nan] * 3
                rows.append(EndOfTraining(arm, component, float(own.mean()), *ends_of))
    return rows
