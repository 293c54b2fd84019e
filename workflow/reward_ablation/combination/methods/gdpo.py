"""Weighted sum of the z-scores, standardised over the batch: GDPO.

`call_method` calls it where tables compare what methods would have done. An arm with `combine: {method: gdpo}` is
trained by TRL's own code, with its setting `normalize_then_sum`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import NORMALIZE_THEN_SUM, shares


def gdpo(
    scores: np.ndarray, groups: np.ndarray, weights: np.ndarray, state: dict[str, Any], *, epsilon: float = 1e-4
) -> Combined:
    """``S_i = sum_k w_k z_ik``; ``A_i = (S_i - mean_batch S) / (std_batch S + epsilon)``.

    w are the weights, and ``z_ik`` is the z-score of component k in the group of completion i.

    Source: GDPO, Liu et al. 2026, arXiv 2601.05242; TRL's `normalize_then_sum`. As in TRL, and unlike equation 4 of the
    paper, epsilon is also added to the group's standard deviation, and a single component is also standardised over
    the batch.
    """
    return Combined(shares(scores, groups, weights, epsilon, NORMALIZE_THEN_SUM), {}, weights)
