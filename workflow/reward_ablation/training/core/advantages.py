"""Advantages of single components, from the raw scores of a generation batch.

`trainer` calls it for each generation of training, and `reward_ablation.trl` for runs of TRL's own trainer. Arms with a
method of combination get from here only `alone_advantages`. The arithmetic is TRL's, with the components kept apart.
TRL does not train with one rollout per prompt. Here the weighted score is then the advantage: PPO without a critic.
"""

from __future__ import annotations

import torch
from torch import Tensor
from trl.trainer.utils import nanstd

#: TRL adds this number to a standard deviation before dividing by it.
EPSILON = 1e-4
#: Totals that differ by at most this share of their largest summand differ by the rounding of float32.
ALIKE = 1e-6


def beyond_range(scores: Tensor, size: int) -> tuple[int, int] | None:
    """Row and column of the first scores, of (N, K), whose mean or squared deviations over `size` rows overflow.

    These rows are a group, or the batch; the row is their first. NaN is no score.
    """
    groups = scores.view(-1, size, scores.shape[1])
    squares = (groups - torch.nanmean(groups, dim=1, keepdim=True)).square().masked_fill(groups.isnan(), 0.0)
    beyond = (~squares.sum(1).isfinite()).nonzero()
    return (int(beyond[0, 0]) * size, int(beyond[0, 1])) if len(beyond) else None


def component_advantages(
    scores: Tensor, weights: Tensor, num_generations: int, scale_rewards: str, aggregation: str
) -> Tensor:
    """Part of each completion's advantage that each component contributes, (N, K).

    `scores`, (N, K), are raw, with NaN where a component gave none; the rows of a group are contiguous. `weights` are
    (K,). `scale_rewards` and `aggregation` (`multi_objective_aggregation`) are TRL's settings: "sum_then_normalize" is
    GRPO (arXiv 2402.03300), and "normalize_then_sum" is GDPO (arXiv 2601.05242), for which `scale_rewards` has no
    effect.

    Each row sums to TRL's advantage or, in groups of one, to the weighted score. A component of weight 0 has part 0 and
    changes no other part, bit for bit. An infinite part becomes the largest float32, as in TRL. A completion without a
    score of any weighted component has parts 0, and so has a group whose totals are equal, as its deviation is 0.
    """
    weighted = weights != 0
    parts = torch.zeros_like(scores)
    if weighted.any():
        of_weighted = scores[:, weighted], weights[weighted]
        parts[:, weighted] = _of_weighted(*of_weighted, num_generations, scale_rewards, aggregation)
    return parts


def _of_weighted(scores: Tensor, weights: Tensor, num_generations: int, scale_rewards: str, aggregation: str) -> Tensor:
    """The parts of the components with a weight."""
    if num_generations == 1:
        return torch.nan_to_num(scores * weights, nan=0.0)
    unscorable = torch.isnan(scores).all(dim=1)
    if aggregation == "normalize_then_sum":
        groups = scores.view(-1, num_generations, scores.shape[1])
        deviation = nanstd(groups, dim=1, keepdim=True) + EPSILON
        scores = ((groups - torch.nanmean(groups, dim=1, keepdim=True)) / deviation).view_as(scores)
        num_generations, scale_rewards = len(scores), "group"  # TRL then normalises over the whole batch
    parts = torch.nan_to_num(scores * weights, nan=0.0)
    parts[unscorable] = torch.nan
    groups = parts.view(-1, num_generations, parts.shape[1])
    total = groups.sum(dim=2)
    centred = groups - torch.nanmean(groups, dim=1, keepdim=True)
    if scale_rewards == "group":
        centred = centred / (nanstd(total, dim=1)[:, None, None] + EPSILON)
        centred = centred.masked_fill(_are_alike(total, groups)[:, None, None], 0.0)
    elif scale_rewards == "batch":
        centred = centred / (nanstd(total.flatten()) + EPSILON)
        centred = centred.masked_fill(_are_alike(total.flatten(), parts), 0.0)
    return torch.nan_to_num(centred.reshape_as(parts), nan=0.0)


def _are_alike(total: Tensor, parts: Tensor) -> Tensor:
    """Whether the totals of a group, along the last axis, are equal up to the rounding of the `parts` that they sum."""
    size = torch.nan_to_num(parts, nan=0.0).abs().flatten(total.dim() - 1).amax(-1)
    return _spread(total, -1).squeeze(-1) <= ALIKE * size


def _spread(values: Tensor, dim: int) -> Tensor:
    """Highest less lowest value along a dimension, which is kept; not above 0 where all are equal or NaN."""
    highest, lowest = (torch.nan_to_num(values, nan=sign * torch.inf) for sign in (-1, 1))
    return highest.amax(dim, keepdim=True) - lowest.amin(dim, keepdim=True)


def alone_advantages(scores: Tensor, num_generations: int, scale_rewards: str, aggregation: str) -> Tensor:
    """Advantages that each component, also an ablated one, would give if it were the only one, at weight 1, (N, K).

    A group of two or more completions with equal scores has advantages of 0 here. TRL would divide rounding errors by a
    deviation of nearly 0.
    """
    one = torch.ones(1, dtype=scores.dtype, device=scores.device)
    how = num_generations, scale_rewards, aggregation
    alone = torch.cat([component_advantages(scores[:, [k]], one, *how) for k in range(scores.shape[1])], dim=1)
    if num_generations == 1:
        return alone
    groups = scores.view(-1, num_generations, scores.shape[1])
    alike = (_spread(groups, 1) <= 0).expand_as(groups).reshape(scores.shape)
    return alone.masked_fill(alike, 0.0)
