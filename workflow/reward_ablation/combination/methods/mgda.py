"""MGDA: the shortest convex combination of the components' gradients.

Arms with `combine: {method: mgda}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.gram_weights import combined_by_gram
from reward_ablation.combination.interface import Combined
from reward_ablation.combination.quadratic import simplex_minimum


def mgda(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    gram: np.ndarray | None,
    epsilon: float = 1e-4,
) -> Combined:
    """``A_i = sum_k l_k z_ik``, where l minimises ``l' G l`` over multipliers of at least 0 that sum to 1.

    ``z_ik`` is the z-score of component k in its group, ``g_k`` the gradient at these z-scores, d the sum of ``l_k
    g_k``, and G has the inner products of the gradients.

    Source: Désidéri 2012; Sener and Koltun 2018, arXiv 1810.04650. The minimum is exact here; the second paper uses
    Frank-Wolfe. With unequal weights the gradients are first divided by the weights, so that the direction maximises
    the least ``<g_k, d> / w_k``: a larger weight asks for more progress. This treatment is the workflow's own.

    On the completions of the Gram matrix the direction harms no component, to first order. Without `gram: same_step`
    these are earlier completions, and tables say "lagged mgda". Short gradients get large multipliers.
    """
    return combined_by_gram(_rule, scores, groups, weights, gram, epsilon)


def _rule(gram: np.ndarray, preferences: np.ndarray) -> np.ndarray:
    return simplex_minimum(gram / np.outer(preferences, preferences)) / (preferences * len(gram))
