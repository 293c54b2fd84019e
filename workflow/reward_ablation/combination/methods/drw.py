"""DRW: a component whose gradient agrees with the sum of all gradients gains weight."""

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
    """``log w_k <- log w_k + learning_rate I_k / mu`` with ``I_k = sum_l <g_k, g_l>``, then a softmax; ``A = sum w z``.

    Source: dynamic reward weighting, its gradient-based variant, Lu et al. 2025, arXiv 2509.11452. There the weights
    start equal and sum to 1; here they start from the arm's weights and keep their sum. There the gradients are of the
    same batch and of some layers; here they are of earlier completions. The longest, best aligned gradient wins all
    weight in the end, and nothing brings the others back.

    `mu` depends on the lengths of the gradients, and so on the model: look at `largest_step` in the state, which is
    the largest ``|learning_rate I_k / mu|`` before it is capped.

    Parameters
    ----------
    mu : float
        Above 0. Paper: 1e-5 for Qwen3-8B, 1e-4 for DeepSeek-7B. A very large one leaves the weights as they are.
    most : float
        Above 0: the largest change of a log weight in one generation. Larger changes are all scaled down by one
        factor. This workflow's own.
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
