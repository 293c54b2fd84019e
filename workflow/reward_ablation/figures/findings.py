"""What a figure shows, in a line for its title: made of the drawn numbers, and claiming no more than they do.

The modules `training`, `evaluation` and `gradients` of figures call it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.training_rewards import around
from reward_ablation.analysis.words import number, numbers, with_interval

#: Most components, or pairs of them, that a line names.
MOST_NAMES = 3


def clearest(effects: pd.DataFrame, limits: Limits, level: float) -> str:
    """The difference of the smallest corrected p, with its interval, and of several how many are significant."""
    known = effects.dropna(subset="estimate")
    if known.empty:
        return ""
    # Of equal p, the one that is furthest from 0 in lengths of its interval.
    size = known["estimate"].abs() / (known["high"] - known["low"])
    first = known.assign(size=-size).sort_values(["p_holm", "size"], kind="stable").iloc[0]
    words = f"{first.name}: {with_interval(first, limits)}"
    significant = int((known["p_holm"] < level).sum())
    return words if len(effects) == 1 else f"{significant} of {len(effects)} significant; clearest: {words}"


def lowest_and_highest(rows: pd.DataFrame, limits: Limits, ends: str = "intervals") -> str:
    """The lowest and the highest of the arms, and whether all `ends` overlap; only intervals are written out."""
    known = rows.dropna(subset="estimate").drop(index="base", errors="ignore")
    if known.empty:
        return ""
    lowest, highest = (known.iloc[place] for place in (known["estimate"].argmin(), known["estimate"].argmax()))
    written = numbers(limits, lowest["estimate"], highest["estimate"])
    if ends == "intervals":
        written = [with_interval(of_arm, limits) for of_arm in (lowest, highest)]
    low, high = f"{lowest.name} ({written[0]})", f"{highest.name} ({written[1]})"
    if len(known) == 1:
        return low
    if lowest["estimate"] == highest["estimate"]:
        return f"all arms have {number(lowest['estimate'], limits)}"
    if known["low"].max() <= known["high"].min():
        return f"all {ends} overlap, from {low} to {high}"
    if lowest["high"] >= highest["low"]:
        return f"from {low} to {high}, whose {ends} overlap"
    return f"{low} is lowest, {high} highest"


def signs(rows: pd.DataFrame, names: pd.Series) -> str:
    """In how many arms the intervals of each name lie above 0, and in how many below 0; a row for each arm and name."""
    known = rows[["low", "high"]].notna().all(axis=1)
    arms, parts = known.groupby(names, sort=False).sum(), []
    for side, beyond in (("above", rows["low"] > 0), ("below", rows["high"] < 0)):
        counts = beyond.groupby(names, sort=False).sum()
        of_names = [f"{name} in {count} of {arms[str(name)]} arms" for name, count in counts.items() if count]
        parts += [f"intervals {side} 0: {listed(of_names)}"] * bool(of_names)
    return "; ".join(parts) or ("no interval leaves out 0" if known.any() else "")


def rises(rewards_by_step: pd.DataFrame, quantities: list[str], same_runs: Mapping[str, str]) -> str:
    """In how many runs, each counted once, a quantity was higher over the last tenth of the steps than the first."""
    parts = []
    rewards_by_step = rewards_by_step.assign(arm=rewards_by_step["arm"].map(same_runs))
    rewards_by_step = rewards_by_step.drop_duplicates(["arm", "seed", "quantity", "step"])
    for quantity in quantities:
        rows = rewards_by_step[rewards_by_step["quantity"] == quantity].dropna(subset="mean")
        rows = rows[rows.groupby(["arm", "seed"], observed=True)["step"].transform("nunique") > 1]
        change = (around(rows, 1.0) - around(rows, 0.0)).dropna()
        parts += [f"{quantity} in {(change > 0).sum()} of {len(change)} runs"] * bool(len(change))
    return f"higher in the last tenth of the steps than in the first: {listed(parts)}" if parts else ""


def listed(parts: list[str]) -> str:
    """At most `MOST_NAMES` parts, and how many more there are."""
    more = len(parts) - MOST_NAMES
    return ", ".join(parts if more <= 0 else [*parts[:MOST_NAMES], f"and {more} more"])
