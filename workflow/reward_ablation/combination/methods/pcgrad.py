"""PCGrad: the parts of each gradient that oppose other gradients are removed, then the gradients are summed.

Arms with `combine: {method: pcgrad}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from reward_ablation.combination.gram_weights import combined_by_gram
from reward_ablation.combination.interface import Combined

#: Up to five components with a weight and a gradient, all orders are taken: 120. With more, a hundred random orders, as
#: all would be too many. `gram_weights` leaves out components without a gradient, so that no division is by zero.
_ALL_ORDERS, _ORDERS = 5, 100


def pcgrad(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    gram: np.ndarray | None,
    step: int,
    epsilon: float = 1e-4,
) -> Combined:
    """``A_i = sum_k l_k z_ik`` with the multipliers of the sum of projected gradients.

    ``z_ik`` is the z-score of component k in its group, and ``g_k`` the gradient at these z-scores. For one other
    component j after another, ``g_k`` loses its part along ``g_j`` if ``<g_k, g_j> < 0``. Here ``g_k`` is the gradient
    after the projections so far, and ``g_j`` is the original gradient. The weights then multiply the projected
    gradients.

    Source: Yu et al. 2020, arXiv 2001.06782, where the order of the others is random. Here the multipliers are the mean
    over all orders; with more than five components, the mean over a hundred random orders that the step determines.
    With two components the direction harms neither of them on the completions whose gradients the Gram matrix has. With
    more components it may.
    """
    return combined_by_gram(partial(_rule, step=step), scores, groups, weights, gram, epsilon)


def _rule(gram: np.ndarray, preferences: np.ndarray, step: int) -> np.ndarray:
    orders = list(_orders(len(gram), step))
    total = np.zeros(len(gram))
    for own, preference in enumerate(preferences):
        for order in orders:
            total += preference * _projected(gram, own, [k for k in order if k != own])
    return total / len(orders)


def _orders(count: int, step: int) -> Iterable[tuple[int, ...]]:
    if count <= _ALL_ORDERS:
        return permutations(range(count))
    generator = np.random.default_rng(step)
    return [tuple(generator.permutation(count)) for _ in range(_ORDERS)]


def _projected(gram: np.ndarray, own: int, others: list[int]) -> np.ndarray:
    """Coefficients of a component's gradient after its conflicts with the others are removed, in the given order."""
    coefficients = np.zeros(len(gram))
    coefficients[own] = 1.0
    for other in others:
        inner = gram[other] @ coefficients
        if inner < 0:
            coefficients[other] -= inner / gram[other, other]
    return coefficients
