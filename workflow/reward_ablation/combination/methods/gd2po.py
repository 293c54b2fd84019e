"""GD²PO: completions on which the components disagree are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import batch_standardised, by_group, group_size, unscorable, z_scores
from reward_ablation.combination.parameters import number

#: What z-scores must exceed to have a sign, and what is added to a sum of sizes. Code: both.
_SMALL = 1e-8


def gd2po(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    epsilon: float = 1e-4,
    threshold: float = 0.8,
) -> Combined:
    """``S_i = q_g sum_k w_k z_ik`` of kept completions, ``q_g`` their share in the group; then batch standardised.

    A completion is in conflict where some weighted z-score is above 0 and another one below 0. It is left out, with
    advantage 0, where besides ``|sum_k w_k z_ik| / sum_k |w_k z_ik| < threshold``.

    Source: GD²PO, H. Liu et al. 2026, arXiv 2606.16771. Scripts: 0.8; the code's default is 0.2. The authors' code has
    no weights; here they come before the test of conflict. The code standardises over the tokens of the kept
    completions; here each completion counts once, as in TRL's GDPO. Standardising moves the mean of the kept
    completions to 0, so one with positive z-scores alone may get a negative advantage. Completions of a group without
    any difference have advantage 0 here, which that shift would move away from 0.

    Parameters
    ----------
    threshold : float
        From 0 to 1. 0 is GDPO; 1 leaves out every completion in conflict, the paper's hard variant.
    """
    number("threshold", threshold, 0.0, 1.0)
    parts = z_scores(scores, groups, epsilon) * weights
    conflicts = (parts > _SMALL).any(axis=1) & (parts < -_SMALL).any(axis=1)
    agreement = np.abs(parts.sum(axis=1)) / (np.abs(parts).sum(axis=1) + _SMALL)
    dropped = conflicts & (agreement < threshold)
    kept_share = np.repeat(1 - by_group(dropped, groups).mean(axis=1), group_size(groups))
    kept = ~dropped & ~unscorable(scores, weights)
    advantages = batch_standardised(parts * kept_share[:, None], groups, kept, epsilon)
    alike = np.repeat((by_group(parts, groups) == 0).all(axis=(1, 2)), group_size(groups))
    advantages[alike] = 0.0
    return Combined(advantages, {}, weights, float(conflicts.mean()))
