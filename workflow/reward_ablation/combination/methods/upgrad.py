"""UPGrad: each gradient is projected to a direction that harms no component, then the projections are summed.

Arms with `combine: {method: upgrad}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.gram_weights import combined_by_gram
from reward_ablation.combination.interface import Combined
from reward_ablation.combination.quadratic import nearest_above


def upgrad(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    gram: np.ndarray | None,
    epsilon: float = 1e-4,
) -> Combined:
    """``A_i = sum_k l_k z_ik`` with ``l = sum_k argmin v' G v`` over ``v >= w_k e_k``.

    ``z_ik`` is the z-score of component k in its group. G has the inner products of the gradients at these z-scores,
    and ``e_k`` is 1 for component k and 0 for the others.

    Source: Jacobian descent, Quinton and Rey 2024, arXiv 2406.16232, with the weights as preferences. If no two
    gradients are in conflict, the multipliers are the weights. On the completions of the Gram matrix the direction
    harms no component, to first order. Without `gram: same_step` these are earlier completions, and tables say "lagged
    upgrad".
    """
    return combined_by_gram(_rule, scores, groups, weights, gram, epsilon)


def _rule(gram: np.ndarray, preferences: np.ndarray) -> np.ndarray:
    total: np.ndarray = sum((nearest_above(gram, floor) for floor in np.diag(preferences)), np.zeros(len(gram)))
    return total
