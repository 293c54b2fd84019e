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

#: Shortest convex combination of the gradients, relative to a root mean square length of 1. A shorter combination is
#: near a Pareto stationary point, and its direction is not reliable.
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

    ``g_0`` is the weighted gradient. The multipliers are ``l = p + c |g_0| / |g_v| v``, where p is the weights over
    their sum and v minimises ``<g_0, g_v> + c |g_0| |g_v|`` over multipliers that sum to 1.

    Source: Liu et al. 2021, arXiv 2110.14048, with p = 1 / K. The paper's code then divides by ``1 + c^2``; here
    `rescale` sets the sum of the multipliers.

    Parameters
    ----------
    c : float
        Largest distance from the weighted gradient, in units of its length; at least 0. 0 leaves the weights
        unchanged. The paper takes c below 1, its code 0.5.
    """
    number("c", c, 0.0)
    return combined_by_gram(partial(_rule, c=c), scores, groups, weights, gram, epsilon)


def _rule(gram: np.ndarray, preferences: np.ndarray, c: float) -> np.ndarray:
    radius = c * np.sqrt(max(preferences @ gram @ preferences, 0.0))
    if radius < _SHORTEST * _SHORTEST:
        return preferences

    def at(length: float) -> np.ndarray:
        """The minimising v if ``|g_v|`` is replaced by its quadratic bound that is exact at this length."""
        towards = np.eye(len(gram)) + (length / radius) * preferences[:, None]
        return simplex_minimum(towards.T @ gram @ towards)

    def too_long(length: float) -> float:
        multipliers = at(length)
        return float(length**2 - multipliers @ gram @ multipliers)

    longest = np.sqrt(np.diag(gram).max()) * (1 + 1e-9)
    length = _SHORTEST if too_long(_SHORTEST) > 0 else brentq(too_long, _SHORTEST, longest, xtol=1e-14, rtol=1e-12)
    result: np.ndarray = preferences + radius / length * at(length)
    return result
