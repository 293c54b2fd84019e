"""After LACONIC: a penalty on tokens over a budget, whose strength follows the mean length.

Arms with `combine: {method: laconic}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import shares, unscorable
from reward_ablation.combination.parameters import number, positive
from reward_ablation.system.errors import StudyError


def laconic(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    tokens: np.ndarray,
    epsilon: float = 1e-4,
    budget: float = 380.0,
    step_size: float = 3.5e-3,
    cap: float = 0.04,
    lowest: float = 3e-4,
    highest: float = 2e-3,
) -> Combined:
    """``R_i = sum_k w_k r_ik - min(l max(0, L_i / budget - 1), cap)``, normalised as in GRPO, with L_i tokens.

    After each generation the multiplier is ``l <- clip(l + step_size (mean_batch L / budget - 1), lowest, highest)``,
    starting at l = 0. w are the weights and r the scores.

    Source: after LACONIC, Liu et al. 2026, arXiv 2602.14468, and the defaults of a guide to its code; the paper's own
    text and code were not read. One difference is known: the guide subtracts another 0.01 from completions of the
    greatest allowed length. This may not be in the paper, and is left out here. A second difference is likely: the
    order of penalty and update is not documented; here the penalty uses the multiplier before the update.

    GRPO divides by the group's deviation. In a group of correct completions alone, even a small penalty therefore
    decides the whole advantage. The penalty's part of the advantage is divided among the components by their weights.

    Parameters
    ----------
    budget : float
        Target of the mean length in tokens, above 0. A good budget depends on the model and the problems; the default
        is the guide's.
    step_size : float
        Change of the multiplier per unit of relative excess length; at least 0.
    cap : float
        Largest penalty, in units of the weighted score; at least 0. 0 is plain GRPO.
    lowest, highest : float
        Range of the multiplier after its first update.
    """
    positive("budget", budget)
    number("step_size", step_size, 0.0)
    number("cap", cap, 0.0)
    number("highest", highest, 0.0)
    if number("lowest", lowest, 0.0) > highest:
        raise StudyError(f"lowest: {lowest:g} is above highest, {highest:g}; write at most {highest:g}")
    multiplier = float(state.get("multiplier", 0.0))
    excess = tokens / budget - 1
    penalty = np.minimum(multiplier * np.maximum(0.0, excess), cap)
    # An unscorable completion stays unscorable.
    penalty = np.where(unscorable(scores, weights), np.nan, -penalty)
    with_penalty = np.column_stack([scores, penalty])
    parts = shares(with_penalty, groups, np.append(weights, 1.0), epsilon)
    total = weights.sum()
    of_weights = weights / total if total else np.zeros(len(weights))
    updated = float(np.clip(multiplier + step_size * excess.mean(), lowest, highest))
    return Combined(parts[:, :-1] + parts[:, -1:] * of_weights, {"multiplier": updated}, None)
