"""GD²PO: completions on which the components disagree are left out.

Arms with `combine: {method: gd2po}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import batch_standardised, by_group, group_size, unscorable, z_scores
from reward_ablation.combination.parameters import number

#: A weighted z-score must exceed this number to have a sign. It is also added to the sum of sizes, the divisor of the
#: agreement. Both are as in the authors' code.
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
    """``S_i = q_g sum_k w_k z_ik`` of kept completions, ``q_g`` their share in the group; then standardised.

    w are the weights, and ``z_ik`` is the z-score of component k in the group g of completion i. The sums are
    standardised over the kept completions of the batch, except in groups of one. A completion without any score counts
    as kept in ``q_g``, and not in these statistics.

    A completion is in conflict if one weighted z-score is above 0 and another is below 0. It is left out, with
    advantage 0, if in addition ``|sum_k w_k z_ik| / sum_k |w_k z_ik| < threshold``.

    Source: GD²PO, H. Liu et al. 2026, arXiv 2606.16771. The authors' scripts set the threshold to 0.8; the default of
    their code is 0.2. Their code has no weights; here the weights come before the test of conflict. Their code
    standardises over the tokens of the kept completions; here each completion counts once, as in TRL's GDPO.
    Standardising moves the mean of the kept completions to 0, so that a completion with only positive z-scores may get
    a negative advantage. In a group without any difference this shift would give advantages other than 0; here they
    are 0.

    Parameters
    ----------
    threshold : float
        Least agreement of a kept completion in conflict, from 0 to 1. 0 is GDPO; 1 leaves out every completion in
        conflict, as the paper's hard variant does.
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
