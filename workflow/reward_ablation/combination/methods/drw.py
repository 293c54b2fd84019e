"""DRW: a component whose gradient agrees with the sum of all gradients gains weight.

Arms with `combine: {method: drw}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.gram_weights import conflicting_pairs
from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import z_scores
from reward_ablation.combination.parameters import positive


def drw(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    gram: np.ndarray | None,
    learning_rate: float,
    epsilon: float = 1e-4,
    mu: float = 1e-4,
    most: float = 1.0,
) -> Combined:
    """``log w_k <- log w_k + learning_rate I_k / mu`` with ``I_k = sum_l <g_k, g_l>``, then a softmax.

    The advantages are ``A_i = sum_k w_k z_ik``. ``g_k`` is the gradient of component k at its z-scores z,
    and l runs over the components with a weight.

    Source: the gradient-based variant of dynamic reward weighting, Lu et al. 2025, arXiv 2509.11452. In the paper the
    weights start equal and sum to 1; here they start from the arm's weights and keep their sum. The paper's gradients
    are of the same batch and of some layers; here they are of all layers and, without `gram: same_step`, of earlier
    completions. In the end the longest, best aligned gradient has nearly all the weight, and the others come back
    only if later gradients favour them for as long.

    With `gram: same_step` or `previous` the right `mu` depends on the lengths of the gradients, and so on the model.
    Averaged Gram matrices, the default, are in units of the mean squared length, so the paper's values do not carry
    over. To choose `mu`, look at `largest_step`, the largest ``|learning_rate I_k / mu|`` before the cap. It is in the
    method's state, which only checkpoints of unfinished runs have.

    Parameters
    ----------
    mu : float
        Divides the changes of the log weights; above 0. Paper: 1e-5 for Qwen3-8B, 1e-4 for DeepSeek-7B. A very large
        value leaves the weights unchanged.
    most : float
        Largest ``|learning_rate I_k / mu|`` in one generation; above 0. If one is larger, one factor scales down all
        changes. The log of a ratio of two weights may change by twice as much. This cap is this workflow's own.
    """
    positive("mu", mu)
    positive("most", most)
    weighted = weights > 0
    logs = np.array([state.get("log_weights", {}).get(name, 0.0) for name in names])
    largest = 0.0
    if gram is not None:
        changes = np.where(weighted, learning_rate * gram[:, weighted].sum(axis=1) / mu, 0.0)
        largest = float(np.abs(changes).max(initial=0.0))
        logs = logs + changes * min(1.0, most / largest if largest else 1.0)
    logs = np.where(weighted, logs - logs[weighted].max(initial=-np.inf), 0.0) if weighted.any() else logs
    adapted = weights * np.exp(logs)
    adapted *= weights.sum() / adapted.sum() if adapted.sum() else 1.0
    new = {"log_weights": dict(zip(names, logs.tolist(), strict=True)), "largest_step": largest}
    return Combined(z_scores(scores, groups, epsilon) * adapted, new, adapted, conflicting_pairs(gram, weights))
