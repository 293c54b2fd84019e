"""SAW: the larger a component's coefficient of variation in the batch, the more the component weighs.

Arms with `combine: {method: saw}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import AGGREGATIONS, NORMALIZE_THEN_SUM, nan_mean, nan_std, shares
from reward_ablation.combination.parameters import choice, positive, ranges_of, unknown_range

#: Coefficients of variation whose sum is at most this are rounding: no component varies.
_NO_VARIATION = 1e-8


def saw(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    bounds: np.ndarray,
    epsilon: float = 1e-4,
    delta: float = 1e-8,
    aggregation: str = NORMALIZE_THEN_SUM,
    ranges: Any = None,
) -> Combined:
    """Weights ``K w_k CV_k / sum CV``; ``CV_k = std_batch u_k / (mean_batch u_k + delta)``, ``u = r - low + delta``.

    r are the scores of a component, low is its lowest score, and K the number of components with a weight.

    Source: SAW, He et al. 2026, arXiv 2606.07705, in both of its modes, `grpo-h` (weighted sum first) and `gdpo-h`
    (z-scores first, the default here). With the factor K, which is 2 in the authors' code, equal coefficients of
    variation leave the weights unchanged. Their code whitens over tokens; here each completion counts once, as in TRL's
    GDPO. If no component varies, the weights stay unchanged.

    A component that seldom scores above its lowest score has the largest coefficient of variation. So this method does
    not distinguish a component that is being learned from a component that is out of reach.

    Parameters
    ----------
    delta : float
        Added to scores and means, above 0. Code: 1e-8.
    aggregation : {"sum_then_normalize", "normalize_then_sum"}
        Whether the weighted sum or the z-scores come first.
    ranges : mapping, optional
        ``{component: [lowest, highest]}`` for components whose range is not documented.
    """
    positive("delta", delta)
    choice("aggregation", aggregation, AGGREGATIONS)
    weighted = weights != 0
    low, _ = ranges_of(ranges, bounds, names, signs, np.zeros(len(weights), bool))
    for column in np.flatnonzero(weighted & np.isnan(low)):
        raise unknown_range(names[column])
    above = scores[:, weighted] - low[weighted] + delta
    mean = np.maximum(nan_mean(above, 0)[0], 0.0)  # NaN stays NaN
    variation = np.nan_to_num(nan_std(above, 0)[0] / (mean + delta), nan=0.0)
    adapted = weights.copy()
    if variation.sum() > _NO_VARIATION:
        adapted[weighted] *= weighted.sum() * variation / variation.sum()
    return Combined(shares(scores, groups, adapted, epsilon, aggregation), {}, adapted)
