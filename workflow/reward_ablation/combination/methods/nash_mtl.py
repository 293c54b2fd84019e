"""Nash-MTL: the direction of the Nash bargaining solution.

Arms with `combine: {method: nash_mtl}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.gram_weights import combined_by_gram
from reward_ablation.combination.interface import Combined

#: Added to the cosine of each gradient with itself, because gradients that cancel have no bargaining solution.
_RIDGE = 1e-9

#: Most steps of Newton's method, and the Newton decrement at which it ends.
_MOST_STEPS, _TOLERANCE = 500, 1e-12


def nash_mtl(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    gram: np.ndarray | None,
    epsilon: float = 1e-4,
) -> Combined:
    """``A_i = sum_k l_k z_ik`` with ``(G l)_k = p_k / l_k``, ``l > 0``, and p the weights over their sum.

    ``z_ik`` is the z-score of component k in its group, ``g_k`` the gradient at these z-scores, and G has the inner
    products of the gradients. This is the direction d that maximises ``sum_k p_k log <g_k, d>``. It does not change
    with the lengths of the gradients. Source: Navon et al. 2022, arXiv 2202.01017, with p_k = 1; unequal p give the
    asymmetric bargaining solution (Kalai 1977). Solved here by Newton's method; the paper solves a sequence of convex
    problems, and also limits the length of the direction. Without `gram: same_step` the Gram matrix is that of earlier
    completions.
    """
    return combined_by_gram(_rule, scores, groups, weights, gram, epsilon)


def _rule(gram: np.ndarray, preferences: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.diag(gram))
    cosines = gram / np.outer(lengths, lengths) + _RIDGE * np.eye(len(gram))
    result: np.ndarray = _bargained(cosines, preferences) / lengths
    return result


def _bargained(gram: np.ndarray, preferences: np.ndarray) -> np.ndarray:
    """Minimum of ``u' gram u / 2 - sum_k p_k log u_k`` by Newton's method with backtracking."""

    def value(u: np.ndarray) -> float:
        return float(u @ gram @ u / 2 - preferences @ np.log(u))

    u = np.sqrt(preferences)
    for _ in range(_MOST_STEPS):
        slope = gram @ u - preferences / u
        direction = -np.linalg.solve(gram + np.diag(preferences / u**2), slope)
        decrease = -slope @ direction
        if decrease < _TOLERANCE**2:
            break
        shrinking = direction < 0
        # Every element stays above 0, so that its logarithm is finite.
        size = min(1.0, 0.99 * float(np.min(-u[shrinking] / direction[shrinking], initial=np.inf)))
        here = value(u)
        while size > 1e-12 and value(u + size * direction) > here - 1e-4 * size * decrease:
            size /= 2
        u = u + size * direction
        if size <= 1e-12:  # rounding hides any further gain
            break
    return u
