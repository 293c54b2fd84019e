"""Multipliers of components from the Gram matrix of their gradients: what CAGrad, MGDA, PCGrad and their kin share.

These methods treat zero gradients, units and conflicts alike, and each passes a rule of its own. DRW takes the share of
conflicts alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import z_scores

#: A gradient counts as zero if its squared length is at most this share of the largest squared length.
ZERO = 1e-12

#: ``(gram, preferences) -> multipliers``: a rule gets a Gram matrix without zero gradients, of mean diagonal 1 (a
#: little more where negative eigenvalues were set to 0), and preferences that sum to 1.
Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def combined_by_gram(
    rule: Rule,
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    gram: np.ndarray | None,
    epsilon: float,
) -> Combined:
    """``A_i = sum_k l_k z_ik``, with the multipliers l that a rule computes from the Gram matrix; see `multipliers`.

    The Gram matrix, (K, K), is that of the gradients at z-scores, so that the gradient of the loss is the weighted sum
    of the components' gradients as long as no importance ratio is clipped. The weights are sizes, at least 0.
    """
    found = multipliers(rule, gram, weights)
    return Combined(z_scores(scores, groups, epsilon) * found, {}, found, conflicting_pairs(gram, weights))


def multipliers(rule: Rule, gram: np.ndarray | None, weights: np.ndarray) -> np.ndarray:
    """(K,) multipliers in units of the weights; the weights themselves without a Gram matrix or a gradient.

    The Gram matrix is divided by its mean diagonal, because gradients of advantages are small and rules have absolute
    tolerances. A component whose gradient is zero is not in the rule, and has its weight times the sum of the others.
    """
    result = np.array(weights, dtype=float)
    live = live_components(gram, weights)
    if gram is None or not live.any():
        return result
    total = weights[live].sum()
    found = rule(_normalised(gram[np.ix_(live, live)]), weights[live] / total)
    result *= np.abs(found).sum()
    result[live] = found * total
    return result


def live_components(gram: np.ndarray | None, weights: np.ndarray) -> np.ndarray:
    """(K,) bool: components with a weight and a gradient."""
    if gram is None:
        return np.zeros(len(weights), dtype=bool)
    squares = np.where(weights > 0, np.diag(gram), 0.0)
    return squares > ZERO * squares.max(initial=0.0)


def conflicting_pairs(gram: np.ndarray | None, weights: np.ndarray) -> float | None:
    """Share of pairs of live components with a negative inner product; None if there is no pair."""
    live = live_components(gram, weights)
    if gram is None or live.sum() < 2:
        return None
    pairs = gram[np.ix_(live, live)][np.triu_indices(int(live.sum()), 1)]
    return float((pairs < 0).mean())


def _normalised(gram: np.ndarray) -> np.ndarray:
    """The Gram matrix made symmetric, of mean diagonal 1, and then without negative eigenvalues of estimates."""
    scaled = (gram + gram.T) / 2
    scaled = scaled / (np.trace(scaled) / len(scaled))
    values, vectors = np.linalg.eigh(scaled)
    if values[0] >= -1e-10 * values[-1]:
        return scaled
    clipped: np.ndarray = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return clipped
