"""CTWA: the weight of a component grows while it covaries too little with the advantage, and its mean is too low.

Arms with `combine: {method: ctwa}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import by_group, nan_mean, shares
from reward_ablation.combination.parameters import by_component, number


def ctwa(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    epsilon: float = 1e-4,
    target_covariance: Any = 0.05,
    reached_at: Any = 0.95,
    step_size: float = 0.02,
    smoothing: float = 0.1,
    most: float = 1e6,
) -> Combined:
    """GRPO; ``log w_k += step_size * max(0, target_k - e_k)`` while ``mean_batch r_k < reached_at_k``.

    ``e_k`` is the moving average, ``e <- (1 - smoothing) e + smoothing v``, of v_k, the covariance of scores r_k and
    advantages A in a group, averaged over groups, in units of the score. mean_batch is over a whole generation. Weights
    only grow: the state has the logarithms of their factors, `growth`, which act from the next generation on.

    Source: CTWA, Lu and Jiang 2026, arXiv 2602.06869. The paper takes the covariance with the advantage times the
    importance ratio after the update. On policy this ratio is 1, so that only the advantage remains. The authors' code
    also drops outliers of the ratio, which do not occur here. The paper normalises as REINFORCE++ does; here it is as
    in GRPO. The code has targets of 0.1 for the first component and 0.05 for the others, and `reached_at` of 1 and
    0.95; here one number holds for all components, and a mapping sets single components. `most` is this workflow's own.

    Parameters
    ----------
    target_covariance : float or mapping
        Covariance below which a weight grows. A very low target, such as -1e9, or a step size of 0 leaves the weights
        unchanged.
    reached_at : float or mapping
        Mean raw score from which on a weight no longer grows. A component of negative weight stops growing once its
        mean is as low as this.
    step_size : float
        Growth of a log weight per unit of missing covariance; at least 0.
    smoothing : float
        Share of the last generation in the moving average, from 0 to 1; 1 takes the last generation alone.
    most : float
        Largest factor by which a weight grows over the whole training; at least 1.
    """
    targets = by_component("target_covariance", target_covariance, names, 0.05)
    reached = by_component("reached_at", reached_at, names, 0.95) * signs
    number("step_size", step_size, 0.0)
    number("smoothing", smoothing, 0.0, 1.0)
    growth = np.array([state.get("growth", {}).get(name, 0.0) for name in names])
    average = np.array([state.get("covariance", {}).get(name, np.nan) for name in names])
    adapted = weights * np.exp(growth)
    advantages = shares(scores, groups, adapted, epsilon)

    covariance = _covariance(scores, advantages.sum(axis=1), groups)
    kept = np.where(np.isnan(covariance), average, (1 - smoothing) * average + smoothing * covariance)
    average = np.where(np.isnan(average), covariance, kept)
    growing = nan_mean(scores, 0)[0] < reached
    deficit = np.where(growing, np.maximum(0.0, targets - np.nan_to_num(average, nan=np.inf)), 0.0)
    growth = np.minimum(growth + step_size * deficit, np.log(number("most", most, 1.0)))
    known = {name: float(value) for name, value in zip(names, average, strict=True) if np.isfinite(value)}
    new = {"growth": dict(zip(names, growth.tolist(), strict=True)), "covariance": known}
    return Combined(advantages, new, adapted)


def _covariance(scores: np.ndarray, advantages: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(K,) covariances of score and advantage, averaged over the groups that have a score; NaN without any."""
    together = np.where(np.isnan(scores), np.nan, advantages[:, None])
    grouped, values = by_group(together, groups), by_group(scores, groups)
    products = (values - nan_mean(values, 1)) * (grouped - nan_mean(grouped, 1))
    return nan_mean(nan_mean(products, 1)[:, 0], 0)[0]
