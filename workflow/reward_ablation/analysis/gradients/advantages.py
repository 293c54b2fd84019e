"""Shares of the advantage under any weights: `training/core/advantages.py` in NumPy and float64, without torch.

A test compares the two.
"""

from __future__ import annotations

import numpy as np

from reward_ablation.analysis.statistics.known import deviation_of_known, mean_of_known

#: Added to standard deviations by TRL before dividing.
EPSILON = 1e-4


def component_shares(
    scores: np.ndarray, weights: np.ndarray, num_generations: int, scale_rewards: str, aggregation: str
) -> np.ndarray:
    """Part of each completion's advantage that each component contributes: (N, K), for raw `scores` of the same shape.

    Rows sum to the advantage that is trained on. A component of weight 0 has share 0, and so has a completion that no
    weighted component could score. A score is NaN where a component gave none. Each `num_generations` consecutive rows
    are a group, and N is a multiple of this number. With groups of one the weighted score is the advantage.

    `scale_rewards` is "group", "batch" or "none", as TRL's setting: whose standard deviation the advantages are divided
    by. `aggregation` is TRL's `multi_objective_aggregation`: "sum_then_normalize" is GRPO (arXiv 2402.03300), and
    "normalize_then_sum" is GDPO (arXiv 2601.05242).
    """
    weighted = weights != 0
    shares = np.zeros(scores.shape)
    shares[:, weighted] = _weighted_shares(
        scores[:, weighted], weights[weighted], num_generations, scale_rewards, aggregation
    )
    return shares


def _weighted_shares(
    scores: np.ndarray, weights: np.ndarray, num_generations: int, scale_rewards: str, aggregation: str
) -> np.ndarray:
    if num_generations == 1:
        return np.nan_to_num(scores * weights, nan=0.0)
    unscorable = np.isnan(scores).all(axis=1)
    if aggregation == "normalize_then_sum":
        groups = scores.reshape(len(scores) // num_generations, num_generations, scores.shape[1])
        scaled = (groups - mean_of_known(groups, 1)) / (deviation_of_known(groups, 1) + EPSILON)
        scores = scaled.reshape(scores.shape)
        num_generations, scale_rewards = len(scores), "group"  # TRL: then over the whole batch
    parts = np.nan_to_num(scores * weights, nan=0.0)
    parts[unscorable] = np.nan
    groups = parts.reshape(len(parts) // num_generations, num_generations, parts.shape[1])
    total = groups.sum(axis=2, keepdims=True)
    centred = groups - mean_of_known(groups, 1)
    if scale_rewards == "group":
        centred = centred / (deviation_of_known(total, 1) + EPSILON)
    elif scale_rewards == "batch":
        centred = centred / (deviation_of_known(total, (0, 1, 2)) + EPSILON)
    return np.nan_to_num(centred.reshape(parts.shape), nan=0.0)


def leave_one_out_scores(scores: np.ndarray, num_generations: int) -> np.ndarray:
    """Score of each completion less the mean score of the others in its group; with groups of one, in the batch.

    Its product with the gradient of the completion's log-probability is an unbiased estimate of the gradient of the
    expected score (the leave-one-out baseline; Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for
    free!", 2019). `scores` are as in `component_shares`; so is the result, 0 for a completion without a score, and
    where no other of its group has a score.
    """
    size = num_generations if num_generations > 1 else len(scores)
    groups = scores.reshape(len(scores) // size, size, scores.shape[1])
    known = (~np.isnan(groups)).sum(axis=1, keepdims=True)
    from_mean = groups - mean_of_known(groups, 1)
    return np.nan_to_num(from_mean * known / np.where(known > 1, known - 1, np.nan), nan=0.0).reshape(scores.shape)
