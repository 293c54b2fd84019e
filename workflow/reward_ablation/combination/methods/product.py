"""Product of the scores, each mapped to [0, 1].

Arms with `combine: {method: product}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import shares
from reward_ablation.combination.parameters import ranges_of, unit_scores


def product(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    bounds: np.ndarray,
    epsilon: float = 1e-4,
    ranges: Any = None,
) -> Combined:
    """``R_i = prod_k u_ik ** (w_k / mean w)``, where ``u`` is the scores mapped to [0, 1]; then normalised as in GRPO.

    k and the mean run over the components with a weight. Equal weights give the plain product; for scores of 0 and 1
    the product is a logical "and". Source of a product as a reward: L1-Max, Aggarwal and Welleck 2025, arXiv
    2503.04697, for correctness and length. The exponents are this workflow's own. A completion that lacks the score of
    a weighted component has no product, and its advantage is 0.

    The advantage is divided equally among the weighted components, because a product has no parts.

    Parameters
    ----------
    ranges : mapping, optional
        ``{component: [lowest, highest]}`` for components whose range is not documented.
    """
    weighted = weights != 0
    low, high = ranges_of(ranges, bounds, names, signs, weighted)
    units = unit_scores(scores[:, weighted], low[weighted], high[weighted])
    powers = weights[weighted] / weights[weighted].mean()
    total = shares(np.prod(units**powers, axis=1)[:, None], groups, np.ones(1), epsilon)
    return Combined(total * weighted / weighted.sum(), {}, None)
