"""DVAO: z-scores, weighted by the standard deviations of the components in the group.

Arms with `combine: {method: dvao}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import by_group, centred, group_size, nan_std, shares


def dvao(
    scores: np.ndarray, groups: np.ndarray, weights: np.ndarray, state: dict[str, Any], *, epsilon: float = 1e-4
) -> Combined:
    """``A_i = sum_k w_gk z_ik`` with ``w_gk = w_k s_gk / sum_l w_l s_gl`` and ``s_gk`` the deviation in the group.

    w are the weights, g is the group of completion i, r its scores and ``z_ik = (r_ik - mean_g r_k) / s_gk``. But for
    epsilon this equals ``sum_k w_k (r_ik - mean_g r_k) / (sum_k w_k s_gk + epsilon)``, which is computed here. Where no
    score is missing, the advantages have the sign and the order of GRPO's, but are smaller in groups in which the
    components disagree.

    Source: DVAO, Jiang et al. 2026, arXiv 2605.25604, equation 9, after restatements of the formula by others. No code
    was published. The deviations have Bessel's correction, as in TRL. With one component, and with components that are
    perfectly correlated, this is GRPO.

    The reported weights are means of ``w_gk`` over the groups in which any component varies. Groups of one completion
    have GRPO's advantages and the arm's weights.
    """
    if group_size(groups) == 1:
        return Combined(shares(scores, groups, weights, epsilon), {}, weights)
    weighted = weights != 0
    parts = np.where(weighted, scores, 0.0) * weights
    grouped = by_group(parts, groups)
    deviations = np.nan_to_num(nan_std(grouped, 1), nan=0.0)
    total = deviations.sum(axis=2, keepdims=True)
    advantages = np.nan_to_num(centred(grouped, 1) / (total + epsilon), nan=0.0).reshape(scores.shape)
    live = total[:, 0, 0] > 0
    effective = (deviations[live] / total[live]).mean(axis=(0, 1)) if live.any() else np.zeros(len(weights))
    return Combined(advantages, {}, effective)
