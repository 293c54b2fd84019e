"""CAGrad: the direction near the weighted gradient in which the worst component gains most.

Arms with `combine: {method: cagrad}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from reward_ablation.combination.gram_weights import combined_by_gram
from reward_ablation.combination.interface import Combined
from reward_ablation.combination.parameters import number
from reward_ablation.combination.quadratic import simplex_minimum

#: Shortest convex combination of the gradients, whose root mean square length `gram_weights.multipliers` makes 1. A
#: shorter combination is near a Pareto stationary point, and its direction is not reliable.
_SHORTEST = 1e-4


def cagrad(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    gram: np.ndarray | None,
    epsilon: float = 1e-4,
    c: float = 0.5,
) -> Combined:
    """``A_i = sum_k l_k z_ik``, with l of the d that maximises ``min_k <g_k, d>`` over ``|d - g_0| <= c |g_0|``.

    ``z_ik`` is the z-score of component k in its group, ``g_k`` the gradient at these z-scores, and ``g_v = sum_k v_k
    g_k``. ``g_0 = g_p`` is the weighted gradient, where p is the weights over their sum. The multipliers are ``l = p +
    c |g_0| / |g_v| v``, where v minimises ``<g_0, g_v> + c |g_0| |g_v|`` over v that are at least 0 and sum to 1.

    Source: Liu et al. 2021, arXiv 2110.14048, with p = 1 / K. The paper's code then divides by ``1 + c^2``; here l is
    multiplied by the sum of the weights and, unless `rescale: false`, scaled to that sum. Without a Gram matrix, as in
    the first step unless `gram: same_step`, the multipliers are the weights. `epsilon` is added to standard deviations.

    Parameters
    ----------
    c : float
        Largest distance from the weighted gradient, in units of its length; at least 0. 0 leaves the weights
        unchanged. The paper takes c below 1, its code 0.5; here it may be larger.
    """
    number("c", c, 0.0)
    return combined_by_gram(partial(_rule, c=c), scores, groups, weights, gram, epsilon)


def _rule(gram: np.ndarray, preferences: np.ndarray, c: float) -> np.ndarray:
    """The multipliers l, from a Gram matrix of mean diagonal about 1 and p; p itself where c |g_0| is about 0."""
    radius = c * np.sqrt(max(preferences @ gram @ preferences, 0.0))
    if radius < _SHORTEST * _SHORTEST:
        return preferences

    def at(length: float) -> np.ndarray:
        """The minimising v if ``|g_v|`` is replaced by its quadratic bound that is exact at this length."""
        towards = np.eye(len(gram)) + (length / radius) * preferences[:, None]
        return simplex_minimum(towards.T @ gram @ towards)

    def too_long(length: float) -> float:
        """Above 0 if the guess `length` is above ``|g_v|`` of its own v; 0 at the length to be found."""
        multipliers = at(length)
        return float(length**2 - multipliers @ gram @ multipliers)

    # No ``|g_v|`` is above that of the longest gradient; 1e-9 is room for rounding. The root has ten digits or more.
    longest = np.sqrt(np.diag(gram).max()) * (1 + 1e-9)
    length = _SHORTEST if too_long(_SHORTEST) > 0 else brentq(too_long, _SHORTEST, longest, xtol=1e-14, rtol=1e-12)
    result: np.ndarray = preferences + radius / length * at(length)
    return result
