"""The worst of the scores, each mapped to [0, 1].

Arms with `combine: {method: minimum}` use it: `call_method` calls it for each generation of completions. The method
keeps no `state` and reports no weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import shares
from reward_ablation.combination.parameters import ranges_of, unit_scores


def minimum(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    bounds: np.ndarray,
    epsilon: float = 1e-4,
    ranges: Any = None,
) -> Combined:
    """``R_i = -max_k w_k (1 - u_ik) / mean w``, where ``u`` is the scores mapped to [0, 1]; then normalised as in GRPO.

    k runs over the components with a weight. With equal weights this is ``min_k u_ik - 1``, and the constant cancels in
    the group's mean. Source: the weighted Tchebycheff scalarisation (Steuer and Choo 1983). The ideal point is the top
    of each component's range, the same in all steps. The code of CTWA (arXiv 2602.06869) applies the scalarisation to
    rewards, with the largest score so far as the ideal point. A completion that lacks the score of a weighted component
    has advantage 0: its R is NaN, for which `shares` gives 0.

    The whole advantage of a completion is the part of its worst component. Equally bad components share it.

    Parameters
    ----------
    ranges : mapping, optional
        ``{component: [lowest, highest]}`` for components without a range in `study.reward_import.RANGES`, such
        as users' own. It also replaces a range from there.
    """
    weighted = weights != 0
    low, high = ranges_of(ranges, bounds, names, signs, weighted)
    lacking = np.zeros(scores.shape)
    units = unit_scores(scores[:, weighted], low[weighted], high[weighted])
    lacking[:, weighted] = (1 - units) * weights[weighted] / weights[weighted].mean()
    worst = lacking.max(axis=1, keepdims=True)
    responsible = weighted & (lacking >= worst)
    # Of a single column: less the group's mean, over the group's standard deviation plus epsilon, as in TRL.
    total = shares(-worst, groups, np.ones(1), epsilon)
    return Combined(total * responsible / np.maximum(responsible.sum(axis=1, keepdims=True), 1), {}, None)
