"""SA-MRPO: the nearer a component's mean score is to its highest score, the less the component weighs.

Arms with `combine: {method: sa_mrpo}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import NORMALIZE_THEN_SUM, nan_mean, shares
from reward_ablation.combination.parameters import number, ranges_of, unit_scores


def sa_mrpo(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    bounds: np.ndarray,
    epsilon: float = 1e-4,
    gamma: float = 0.5,
    ranges: Any = None,
) -> Combined:
    """``s_k = (mean_batch r_k - low_k) / (high_k - low_k)``; GDPO with weights ``w_k (1 - s_k) ** gamma``.

    ``low_k`` and ``high_k`` are the ends of the range of component k, and a mean score outside is moved to an end.

    Source: SA-MRPO, Wang et al. 2026, arXiv 2608.16072, after restatements of the formulas by others. No code was
    published. A component with its highest score everywhere has weight 0; a component without any score keeps its
    weight.

    Parameters
    ----------
    gamma : float
        Exponent of the formula, at least 0; 0 is GDPO. Paper: 0.5 is best.
    ranges : mapping, optional
        ``{component: [lowest, highest]}`` for components whose range is not documented.
    """
    number("gamma", gamma, 0.0)
    needed = (weights != 0) & (gamma != 0)
    low, high = ranges_of(ranges, bounds, names, signs, needed)
    saturation = np.zeros(len(weights))
    saturation[needed] = unit_scores(nan_mean(scores[:, needed], 0)[0], low[needed], high[needed])
    adapted = weights * (1 - np.nan_to_num(saturation, nan=0.0)) ** gamma
    return Combined(shares(scores, groups, adapted, epsilon, NORMALIZE_THEN_SUM), {}, adapted)
