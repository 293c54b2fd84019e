"""Weighted sum of the scores, then normalisation: GRPO.

`call_method` calls it where tables compare what methods would have done. An arm with `combine: {method: weighted_sum}`
is trained by TRL's own code, with its setting `sum_then_normalize`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import SUM_THEN_NORMALIZE, shares
from reward_ablation.combination.parameters import choice


def weighted_sum(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    epsilon: float = 1e-4,
    scale_rewards: str = "group",
) -> Combined:
    """``R_i = sum_k w_k r_ik``; ``A_i = (R_i - mean_g R) / (std_g R + epsilon)``.

    w are the weights and r the scores. mean_g and std_g are over the group of completion i.

    Source: GRPO, Shao et al. 2024, arXiv 2402.03300; TRL's `sum_then_normalize`. A missing score counts as 0.

    Parameters
    ----------
    scale_rewards : {"group", "batch", "none"}
        Whether the sum is divided by the standard deviation of the group, of the batch, or by none, as in TRL.
    """
    choice("scale_rewards", scale_rewards, ("group", "batch", "none"))
    return Combined(shares(scores, groups, weights, epsilon, SUM_THEN_NORMALIZE, scale_rewards), {}, weights)
