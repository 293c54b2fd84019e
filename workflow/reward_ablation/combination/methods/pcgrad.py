"""PCGrad: from each gradient the parts that are against others are taken out, then the gradients are summed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from reward_ablation.combination.gram_weights import combined_by_gram
from reward_ablation.combination.interface import Combined

#: Components up to which all orders are taken; beyond, a hundred for each component.
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

    From ``w_k g_k`` its part along ``g_l`` is taken away where ``<g_k, g_l> < 0``, for one l after the other, with g_k
    as it is by then and g_l as it was.

    Source: Yu et al. 2020, arXiv 2001.06782, where the order of the others is random. Here the multipliers are the
    mean over all orders, and with more than five components over a hundred orders that the step decides. For two
    components the direction harms neither in the Gram matrix of earlier completions; for more it may.
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
    """Coefficients of one component's gradient after its conflicts with the others, in their order."""
    coefficients = np.zeros(len(gram))
    coefficients[own] = 1.0
    for other in others:
        inner = gram[other] @ coefficients
        if inner < 0:
            coefficients[other] -= inner / gram[other, other]
    return coefficients
