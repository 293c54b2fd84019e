"""Means, deviations and advantages over groups and batches, as TRL computes them, for the methods of combination.

The methods call it, and so do the tables that compute a measured step again. The trainer has the same formulas in
torch; these are in NumPy because neither tables nor a plan may need torch.

Standard deviations have Bessel's correction. NaN stands for a score that a component did not give; the statistics leave
NaN out, and a weighted sum of scores takes it as 0. A group of one completion is neither centred nor scaled: its
weighted score is its advantage.
"""

from __future__ import annotations

import numpy as np

#: TRL's names for the two orders: weighted sum first (GRPO, arXiv 2402.03300), z-scores first (GDPO, arXiv 2601.05242).
SUM_THEN_NORMALIZE, NORMALIZE_THEN_SUM = AGGREGATIONS = ("sum_then_normalize", "normalize_then_sum")
#: A group's totals are equal if they differ by at most this share of their largest part: the trainer rounds to float32.
ALIKE = 1e-6


def group_size(groups: np.ndarray) -> int:
    """Number of completions in each group, from the (N,) group numbers; the rows of a group are adjacent."""
    changes = np.flatnonzero(groups[1:] != groups[:-1])
    return int(changes[0]) + 1 if len(changes) else len(groups)


def by_group(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Reshape (N, ...) values to (groups, completions of a group, ...)."""
    return values.reshape(-1, group_size(groups), *values.shape[1:])


def nan_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean of the values that are not NaN; NaN where there is no such value. The axis is kept."""
    present = ~np.isnan(values)
    count = present.sum(axis, keepdims=True)
    total = np.where(present, values, 0.0).sum(axis, keepdims=True)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def centred(values: np.ndarray, axis: int) -> np.ndarray:
    """Differences from `nan_mean`; exactly 0 where all values along the axis are equal."""
    low = np.where(np.isnan(values), np.inf, values).min(axis, keepdims=True, initial=np.inf)
    high = np.where(np.isnan(values), -np.inf, values).max(axis, keepdims=True, initial=-np.inf)
    differences = values - nan_mean(values, axis)
    return np.where((high <= low) & ~np.isnan(values), 0.0, differences)


def nan_std(values: np.ndarray, axis: int) -> np.ndarray:
    """Standard deviation of the values that are not NaN; NaN where there are fewer than two. The axis is kept."""
    count = (~np.isnan(values)).sum(axis, keepdims=True)
    squares = np.nan_to_num(centred(values, axis) ** 2).sum(axis, keepdims=True)
    variance = np.divide(squares, count - 1, out=np.full(squares.shape, np.nan), where=count > 1)
    return np.sqrt(variance)


def z_scores(scores: np.ndarray, groups: np.ndarray, epsilon: float) -> np.ndarray:
    """(N, K) scores minus the group's mean, over its deviation plus epsilon; 0 for a missing or a single score.

    In groups of one completion the result is the scores themselves.
    """
    if group_size(groups) == 1:
        return np.nan_to_num(scores, nan=0.0)
    grouped = by_group(scores, groups)
    return np.nan_to_num(centred(grouped, 1) / (nan_std(grouped, 1) + epsilon), nan=0.0).reshape(scores.shape)


def unscorable(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(N,) bool: whether no component with a weight could score a completion."""
    missing: np.ndarray = np.isnan(scores[:, weights != 0]).all(axis=1)
    return missing


def batch_standardised(parts: np.ndarray, groups: np.ndarray, kept: np.ndarray, epsilon: float) -> np.ndarray:
    """Parts (N, K) of each value, centred, over the deviation in the batch of the rows' sums plus epsilon.

    Completions that are not `kept`, (N,), get 0 and are not counted. In groups of one the parts stay unchanged.
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
    """Part of each completion's advantage that each component contributes, (N, K), by either of TRL's aggregations.

    The result is that of the trainer's `component_advantages`, in double precision. A completion that no weighted
    component could score has advantage 0.

    `scores`, (N, K), are NaN where a component gave no score. `sum_then_normalize` takes such a score as 0, and
    `normalize_then_sum` leaves it out of the statistics. The names say whether the weighted sum or the z-scores come
    first. `groups`, (N,), has the number of each completion's group. A component of weight 0 changes no advantage.
    `epsilon` is added to standard deviations. `scale_rewards` is "group", "batch" or "none": the standard deviation by
    which `sum_then_normalize` divides the weighted sum. `normalize_then_sum` does not use it.
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
        differences[_are_alike(grouped)] = 0.0
    elif scale_rewards == "batch":
        differences = differences / (nan_std(parts.sum(axis=1), 0) + epsilon)
        if _are_alike(parts[None])[0]:
            differences = np.zeros_like(differences)
    return np.nan_to_num(differences.reshape(parts.shape), nan=0.0)


def _are_alike(parts: np.ndarray) -> np.ndarray:
    """Whether the totals of each group of (G, n, K) parts are equal up to rounding, (G,)."""
    total = parts.sum(axis=2)
    highest, lowest = np.nan_to_num(total, nan=-np.inf).max(1), np.nan_to_num(total, nan=np.inf).min(1)
    return highest - lowest <= ALIKE * np.abs(np.nan_to_num(parts, nan=0.0)).max((1, 2), initial=0.0)
