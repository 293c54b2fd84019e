"""Means, deviations and advantages over groups and batches, as TRL computes them.

Standard deviations have Bessel's correction. NaN stands for a score that a component did not give and is left out of
the statistics. A group of one completion is neither centred nor scaled: the weighted score is the advantage.
"""

from __future__ import annotations

import numpy as np

#: TRL's names for what comes first: the weighted sum (GRPO, arXiv 2402.03300) or the z-scores (GDPO, arXiv 2601.05242).
SUM_THEN_NORMALIZE, NORMALIZE_THEN_SUM = AGGREGATIONS = ("sum_then_normalize", "normalize_then_sum")


def group_size(groups: np.ndarray) -> int:
    """Completions in each group, from the (N,) numbers of the groups, whose rows are adjacent."""
    changes = np.flatnonzero(groups[1:] != groups[:-1])
    return int(changes[0]) + 1 if len(changes) else len(groups)


def by_group(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(N, ...) values as (groups, completions of a group, ...)."""
    return values.reshape(-1, group_size(groups), *values.shape[1:])


def nan_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean of the values that are not NaN, the axis kept; NaN where there are none."""
    present = ~np.isnan(values)
    count = present.sum(axis, keepdims=True)
    total = np.where(present, values, 0.0).sum(axis, keepdims=True)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def centred(values: np.ndarray, axis: int) -> np.ndarray:
    """Differences from `nan_mean`; exactly 0 where all values along the axis are alike."""
    low = np.where(np.isnan(values), np.inf, values).min(axis, keepdims=True, initial=np.inf)
    high = np.where(np.isnan(values), -np.inf, values).max(axis, keepdims=True, initial=-np.inf)
    differences = values - nan_mean(values, axis)
    return np.where((high <= low) & ~np.isnan(values), 0.0, differences)


def nan_std(values: np.ndarray, axis: int) -> np.ndarray:
    """Standard deviation of the values that are not NaN, the axis kept; NaN where there are fewer than two."""
    count = (~np.isnan(values)).sum(axis, keepdims=True)
    squares = np.nan_to_num(centred(values, axis) ** 2).sum(axis, keepdims=True)
    variance = np.divide(squares, count - 1, out=np.full(squares.shape, np.nan), where=count > 1)
    return np.sqrt(variance)


def z_scores(scores: np.ndarray, groups: np.ndarray, epsilon: float) -> np.ndarray:
    """(N, K) scores minus the group's mean, over the group's standard deviation plus epsilon.

    0 where there is no score, where the group has one score only, and where its scores are alike. In groups of one
    completion the scores themselves.
    """
    if group_size(groups) == 1:
        return np.nan_to_num(scores, nan=0.0)
    grouped = by_group(scores, groups)
    return np.nan_to_num(centred(grouped, 1) / (nan_std(grouped, 1) + epsilon), nan=0.0).reshape(scores.shape)


def unscorable(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(N,) bool: completions that no component with a weight could score."""
    missing: np.ndarray = np.isnan(scores[:, weights != 0]).all(axis=1)
    return missing


def batch_standardised(parts: np.ndarray, groups: np.ndarray, kept: np.ndarray, epsilon: float) -> np.ndarray:
    """Parts of each completion's value, centred and over the standard deviation of the values in the batch.

    Parameters
    ----------
    parts : (N, K) float array
        Rows sum to the values.
    groups : (N,) int array
        In groups of one completion the parts stay as they are.
    kept : (N,) bool array
        Completions that are in the statistics. The others get 0.
    epsilon : float
        Added to the standard deviation.
    """
    if group_size(groups) == 1:
        return np.where(kept[:, None], parts, 0.0)
    values = np.where(kept[:, None], parts, np.nan)
    deviation = nan_std(values.sum(axis=1), 0)
    return np.nan_to_num(centred(values, 0) / (deviation + epsilon), nan=0.0)


def shares(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    epsilon: float,
    aggregation: str = SUM_THEN_NORMALIZE,
    scale_rewards: str = "group",
) -> np.ndarray:
    """Part of each completion's advantage that each component contributes, by TRL's two aggregations.

    The same as `component_shares` of the trainer, in double precision.

    Parameters
    ----------
    scores : (N, K) float array
        NaN where a component gave none: with weights first such a score counts as 0, with z-scores first it is left
        out of the statistics.
    groups : (N,) int array
    weights : (K,) float array
        A component of weight 0 changes no advantage.
    epsilon : float
    aggregation : {"sum_then_normalize", "normalize_then_sum"}
    scale_rewards : {"group", "batch", "none"}
        Of which standard deviation the weighted sum is divided by; only with weights first.

    Returns
    -------
    (N, K) array. A completion that no weighted component could score has advantage 0.
    """
    missing = unscorable(scores, weights)
    if aggregation == NORMALIZE_THEN_SUM:
        return batch_standardised(z_scores(scores, groups, epsilon) * weights, groups, ~missing, epsilon)
    parts = np.where(np.isnan(scores) | (weights == 0), 0.0, scores) * weights
    parts[missing] = np.nan
    if group_size(groups) == 1:
        return np.nan_to_num(parts, nan=0.0)
    grouped = by_group(parts, groups)
    differences = centred(grouped, 1)
    if scale_rewards == "group":
        differences = differences / (nan_std(grouped.sum(axis=2, keepdims=True), 1) + epsilon)
    elif scale_rewards == "batch":
        differences = differences / (nan_std(parts.sum(axis=1), 0) + epsilon)
    return np.nan_to_num(differences.reshape(parts.shape), nan=0.0)
