"""Whether the surface predicts arms that it has not seen, beside three rules that need no model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from reward_ablation.design.surface.model import MANY_ARMS, MeasuredArms, Surface

#: The rules in the order of the table, the surface first.
SURFACE, NEAREST, ALONE, MEAN = RULES = ["surface", "nearest", "alone", "mean"]

#: The surface is ahead where its error is at most this part of the error of each other rule.
AHEAD = 0.9

#: Fewest arms that a rule must predict to be compared with.
LEAST_PREDICTED = 3


@dataclass(frozen=True)
class LeftOut:
    """Each arm, predicted from the others: (arms,) arrays in units of the metric, NaN where a rule says nothing.

    Attributes
    ----------
    predicted : dict of str to array
        By rule.
    low, high : arrays
        The surface's intervals for what the arm's seeds would show.
    """

    predicted: dict[str, np.ndarray]
    low: np.ndarray
    high: np.ndarray


def left_out(surface: Surface, confidence: float) -> LeftOut:
    """Predict each arm of a fitted surface from the others, by the surface and by the three other rules."""
    arms = surface.arms
    predicted = {rule: np.full(len(arms.names), np.nan) for rule in RULES}
    low, high = np.full((2, len(arms.names)), np.nan)
    many = len(arms.names) > MANY_ARMS
    if many:
        expected = surface.left_out().of_new_arms(arms.spread, arms.seeds)
        predicted[SURFACE], (low, high) = expected.estimate, expected.interval(confidence)
    for arm, point in enumerate(arms.shares):
        others = arms.without(arm)
        if not many:
            expected = Surface(others).predict(point[None]).of_new_arms(arms.spread, arms.seeds[arm])
            predicted[SURFACE][arm] = expected.estimate[0]
            low[arm], high[arm] = (end[0] for end in expected.interval(confidence))
        predicted[NEAREST][arm] = nearest(others, point)
        predicted[ALONE][arm] = as_alone(others, point)
        predicted[MEAN][arm] = others.means.mean()
    return LeftOut(predicted, low, high)


def nearest(arms: MeasuredArms, point: np.ndarray) -> float:
    """The metric of the arm with the nearest shares; the mean of such arms where several are as near."""
    distances = np.square(arms.shares - point).sum(axis=1)
    return float(arms.means[np.isclose(distances, distances.min())].mean())


def as_alone(arms: MeasuredArms, point: np.ndarray) -> float:
    """Each component's effect as where it is rewarded alone, times its share; NaN without an arm of one of them.

    Shares have the sum 1. So the base model, from which effects are counted, drops out of the sum.
    """
    total = 0.0
    for component in np.flatnonzero(point):
        alone = np.isclose(arms.shares[:, component], 1)
        total += point[component] * arms.means[alone].mean() if alone.any() else np.nan
    return float(total)


def check_table(arms: MeasuredArms, of: LeftOut, higher_is_better: bool) -> pd.DataFrame:
    """A row for each of `RULES`.

    `error` is the root mean square over the `arms` that the rule predicts, and `surface_error` that of the surface for
    the same arms. `coverage` is the share of arms within the surface's intervals. `picked` is the arm that the rule
    ranks first from all others, and `regret` how far that arm is behind the best one. The mean of the other arms ranks
    nothing: its regret is that of an arm drawn at random. `ahead` says whether the surface is clearly better.
    """
    towards = 1.0 if higher_is_better else -1.0
    behind = (towards * arms.means).max() - towards * arms.means
    coverage = float(((of.low <= arms.means) & (arms.means <= of.high)).mean())
    rows = []
    for rule, predicted in of.predicted.items():
        known = ~np.isnan(predicted)
        error, surface_error = (root_mean_square((of.predicted[name] - arms.means)[known]) for name in (rule, SURFACE))
        ranked = np.where(known, towards * predicted, -np.inf)
        pick = int(ranked.argmax()) if rule != MEAN and known.any() else None
        compared = rule != SURFACE and known.sum() >= LEAST_PREDICTED
        rows.append(
            {
                "rule": rule,
                "arms": int(known.sum()),
                "error": error,
                "surface_error": surface_error,
                "coverage": coverage if rule == SURFACE else np.nan,
                "picked": None if pick is None else arms.names[pick],
                "regret": behind.mean() if rule == MEAN else np.nan if pick is None else behind[pick],
                "ahead": bool(surface_error <= AHEAD * error) if compared else None,
            }
        )
    return pd.DataFrame(rows)


def root_mean_square(values: np.ndarray) -> float:
    """Root mean square; NaN of no values."""
    return float(np.sqrt(np.square(values).mean())) if len(values) else np.nan
