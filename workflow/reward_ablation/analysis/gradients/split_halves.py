"""Cosines between the components' expected gradients: the noise of the completions is taken out.

The cosine of two measured gradients has the noise of their completions in both norms, and in the inner product, since
both gradients come from the same completions. If the prompts are split in halves and each half gives one gradient, the
noises are independent: <g_a(half 1), g_b(half 2)> has the expectation <E g_a, E g_b>. The mean over all splits is a sum
over pairs of different prompts, which the stored Gram matrices give directly, without drawing splits.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.measured_steps import StepProducts
from reward_ablation.gram.similarity import ALL_LAYERS, inverse_norms, jackknife_margin, with_all_layers

COLUMNS = ["layer", "component_a", "component_b", "estimate", "low", "high"]


def halves_by_prompt(products: StepProducts) -> np.ndarray:
    """Products of the `alone` gradients over pairs of different prompts of one block, by the first one's prompt.

    An (L + 1, G, K, K) array, `all` layers first.
    """
    by_block = [
        cross_prompt_products(block.grams, block.coefficients, block.coefficients, block.prompts, products.prompts)
        for block in products.blocks
    ]
    return with_all_layers(np.sum(by_block, axis=0), axis=0)


def cross_prompt_products(
    grams: np.ndarray, first: np.ndarray, second: np.ndarray, labels: np.ndarray, prompts: np.ndarray
) -> np.ndarray:
    """Inner products of two sets of vectors over pairs of rows of different prompts, by the first row's prompt.

    Up to a factor that all products share, their sum is the mean over all splits of the prompts in halves. `grams`,
    (..., R, R), are Gram matrices of the rows. `first`, (V, R), and `second`, (W, R), are coefficients of the vectors.
    `labels`, (R,), has each row's prompt, and `prompts`, (G,), all prompts of the step. The result is (..., G, V, W).
    """
    member = (labels == prompts[:, None]).astype(float)  # (G, R)
    inner = grams @ second.T  # (..., R, W)
    by_pair = np.einsum("gr,vr,...rw->...gvw", member, first, inner, optimize=True)
    own = np.zeros_like(by_pair)
    for place in range(len(prompts)):
        rows = np.flatnonzero(member[place])
        if len(rows):
            own[..., place, :, :] = first[:, rows] @ grams[..., rows[:, None], rows] @ second[:, rows].T
    return by_pair - own


def cosine_with_interval(total: np.ndarray, left_out: np.ndarray, confidence: float) -> tuple[np.ndarray, ...]:
    """Noise-corrected cosines and the ends of jackknife intervals: estimate, low and high, each (..., K, K).

    They are clipped to [-1, 1], and NaN where a norm is not resolved. A norm is resolved where its square is above 0 by
    more than its margin of error. The corrected square of a gradient that is mostly noise may have any value, also
    below 0, and a cosine with such a norm says nothing. `total`, (..., K, K), has the corrected inner products, and
    `left_out`, (..., G, K, K), the same without each of G independent steps. All is NaN where G is below 3.
    """
    if left_out.shape[-3] < 3:
        return tuple(np.full(total.shape, np.nan) for _ in range(3))
    squares = np.diagonal(total, axis1=-2, axis2=-1)
    resolved = squares - np.diagonal(jackknife_margin(left_out, confidence), axis1=-2, axis2=-1) > 0
    known = resolved[..., :, None] & resolved[..., None, :]
    estimate, without = total * inverse_norms(total), left_out * inverse_norms(left_out)
    width = jackknife_margin(without, confidence)
    ends = estimate, estimate - width, estimate + width
    return tuple(np.where(known, np.clip(values, -1, 1), np.nan) for values in ends)


def cosines_of_steps(
    by_step: list[np.ndarray], layers: list[str], components: list[str], confidence: float
) -> pd.DataFrame:
    """Cosines by layer and pair of the summed products of a run's steps; the interval leaves out one step at a time.

    `by_step` has sums of `halves_by_prompt` over prompts, (L + 1, K, K) arrays.
    """
    stacked = np.stack(by_step, axis=1)  # (L + 1, T, K, K)
    total = stacked.sum(axis=1)
    estimates = cosine_with_interval(total, total[:, None] - stacked, confidence)
    rows = [
        (layer, components[a], components[b], *(float(values[place, a, b]) for values in estimates))
        for place, layer in enumerate([ALL_LAYERS, *layers])
        for a, b in combinations(range(len(components)), 2)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
