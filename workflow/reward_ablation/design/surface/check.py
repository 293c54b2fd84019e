"""Check of the surface: how well it predicts arms from the other arms, compared with three simple rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from reward_ablation.design.surface.model import MANY_ARMS, MeasuredArms, Surface

#: The rules in the order of the table. The surface is the first.
SURFACE, NEAREST, ALONE, MEAN = RULES = ["surface", "nearest", "alone", "mean"]

#: The surface is ahead of a rule if its error is at most this share of the rule's error.
AHEAD = 0.9

#: A rule must predict at least this many arms to be compared with the surface.
LEAST_PREDICTED = 3


@dataclass(frozen=True)
class LeftOut:
    """Predictions of each arm from the other arms: (arms,) arrays in units of the metric.

    Attributes
    ----------
    predicted : dict of str to array
        Predictions of each rule; NaN where a rule cannot predict an arm.
    low, high : arrays
        Ends of the surface's intervals for the measured metric of the arm.
    """

    predicted: dict[str, np.ndarray]
    low: np.ndarray
    high: np.ndarray


def predict_left_out(surface: Surface, confidence: float) -> LeftOut:
    """Predict each arm of a fitted surface from the other arms, by each of `RULES`."""
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
        predicted[ALONE][arm] = sum_of_single_effects(others, point)
        predicted[MEAN][arm] = others.means.mean()
    return LeftOut(predicted, low, high)


def nearest(arms: MeasuredArms, point: np.ndarray) -> float:
    """Metric of the arm with the nearest shares; the mean if several arms are equally near."""
    distances = np.square(arms.shares - point).sum(axis=1)
    return float(arms.means[np.isclose(distances, distances.min())].mean())


def sum_of_single_effects(arms: MeasuredArms, point: np.ndarray) -> float:
    """Sum of the effects of the components when rewarded alone, each times its share.

    NaN if no arm rewards one of these components alone. Effects are relative to the base model, but since shares have
    the sum 1, the base model cancels out of the sum.
    """
    total = 0.0
    for component in np.flatnonzero(point):
        alone = np.isclose(arms.shares[:, component], 1)
        total += point[component] * arms.means[alone].mean() if alone.any() else np.nan
    return float(total)


def check_table(arms: MeasuredArms, of: LeftOut, higher_is_better: bool) -> pd.DataFrame:
    """Make the table `weight_surface_check`, with a row for each of `RULES`.

    Columns
    -------
    rule : name of the rule
    arms : number of arms that the rule predicts
    error : root mean square error of the rule over these arms
    surface_error : root mean square error of the surface over the same arms
    coverage : share of arms within the surface's intervals; only in the row of the surface
    picked : arm that the rule ranks first, predicting each arm from the others; missing for the mean, which ranks none
    regret : how far the picked arm is behind the best arm; for the mean, the expected regret of a random arm
    ahead : whether the surface is clearly better than the rule; missing if the rule predicts too few arms
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
    """Root mean square; NaN if there are no values."""
    return float(np.sqrt(np.square(values).mean())) if len(values) else np.nan
