"""Table similarity_by_arm: similarity of the components' gradients over an arm's steps and seeds, with intervals.

`tables`, which the rule `tables_gradients` runs, calls it arm by arm; `methods_offline` takes `ratios` for its cosines.

The norms of two measured gradients contain the noise of their completions, and so does the inner product, since both
gradients come from the same completions. If the prompts are split in halves and each half gives one gradient, the
noises are independent: <g_a(half 1), g_b(half 2)> has the expectation <E g_a, E g_b>. The mean over all splits is a sum
over pairs of different prompts, which the stored Gram matrices give directly, without drawing splits. So the rows of
the part `split_halves` are cosines of the expected gradients.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.measured_steps import MeasuredStep
from reward_ablation.analysis.gradients.seed_intervals import STEPS, Estimates, over_seeds
from reward_ablation.gram.similarity import ALL_LAYERS, inverse_norms, jackknife_margin, with_all_layers

#: A cosine and the parts that add up to it. Within a micro-batch these are products of a completion with itself, others
#: of its prompt, and those of other prompts. `across_blocks` has those with other micro-batches or processes.
COSINE_AND_PARTS = ["cosine", "self", "same_prompt", "cross_prompt", "across_blocks"]
#: Parts that are not exact where the gradients of large parameters were reduced to fewer numbers (folded).
FOLDED = {"cosine", "across_blocks"}
#: The cosine of the expected gradients, which is no sum of the others.
CORRECTED = "split_halves"


def similarity_by_arm(similarities: pd.DataFrame, arm: str, confidence: float) -> pd.DataFrame:
    """Cosine and its parts over the measured steps of each seed, mean over seeds, with intervals by Student's t.

    The cosine of a seed is the mean inner product over steps, divided by the root of the product of the mean squared
    norms; so do its parts add up. A mean of cosines would weigh a step with hardly any gradient like any other. The
    estimate is null where a gradient is zero at all steps. `folding_error` is the largest of any step.
    """
    if similarities.empty:
        return pd.DataFrame()
    units, unit = pairs_by_layer(similarities)
    products, squares, seeds, steps = products_and_squares(similarities, unit, len(units))
    by_seed, by_step = ratios(products, squares)
    estimates = over_seeds(by_seed.reshape(-1, len(seeds)), by_step.reshape(-1, len(seeds), len(steps)), confidence)
    part, row = np.divmod(np.arange(len(COSINE_AND_PARTS) * len(units)), len(units))  # `row`: of `units`
    names = np.array(COSINE_AND_PARTS, dtype=object)[part]
    bounds = np.where(names == "cosine", 1.0, np.inf)  # a part may lie outside the range of a cosine
    folding = np.full(len(units), np.nan)
    np.fmax.at(folding, unit, similarities["folding_error"].to_numpy(dtype=float))
    exact = np.where(np.isnan(folding), np.nan, 0.0)
    measured = np.zeros((len(units), len(steps)), dtype=bool)
    measured[unit, np.searchsorted(steps, similarities["step"])] = True
    table = units.iloc[row].assign(
        part=names,
        **estimates.clipped(-bounds, bounds)._asdict(),
        folding_error=np.concatenate([folding if name in FOLDED else exact for name in COSINE_AND_PARTS]),
        seeds=(~np.isnan(by_seed)).sum(axis=2).ravel(),
        steps=measured.sum(axis=1)[row],
        arm=arm,
    )
    order = np.lexsort((row, part, table["pair"]))
    return table.iloc[order].drop(columns="pair")


def pairs_by_layer(similarities: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Units: pairs of components in a layer, by pair, then in the model's order of layers; and each row's unit."""
    codes = {name: pd.factorize(similarities[name]) for name in ("definition", "component_a", "component_b", "layer")}
    whole = np.zeros(len(similarities), dtype=np.int64)
    for name in ("definition", "component_a", "component_b"):
        whole = whole * len(codes[name][1]) + codes[name][0]
    pair, layers = pd.factorize(whole)[0], len(codes["layer"][1])
    _, first, unit = np.unique(pair * layers + codes["layer"][0], return_index=True, return_inverse=True)
    labels = {name: np.asarray(names, dtype=object)[code[first]] for name, (code, names) in codes.items()}
    return pd.DataFrame(labels | {"pair": pair[first]}), unit


def products_and_squares(
    similarities: pd.DataFrame, unit: np.ndarray, units: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inner products, (parts, units, seeds, steps), squared norms, (2, units, seeds, steps), seeds and steps.

    NaN at steps that were not measured. A gradient that is zero has no cosine; its inner products and norm are 0.
    """
    (seed, seeds), (step, steps) = (pd.factorize(similarities[column], sort=True) for column in ("seed", "step"))
    norms = similarities[["norm_a", "norm_b"]].to_numpy(dtype=float).T
    scaled = np.nan_to_num(similarities[COSINE_AND_PARTS].to_numpy(dtype=float).T) * norms.prod(axis=0)
    shape = units, len(seeds), len(steps)
    products, squares = np.full((len(COSINE_AND_PARTS), *shape), np.nan), np.full((2, *shape), np.nan)
    products[:, unit, seed, step] = scaled
    squares[:, unit, seed, step] = np.square(norms)
    return products, squares, np.asarray(seeds), np.asarray(steps)


def ratios(products: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (..., seeds, steps) products over the root of the product of the mean (2, ..., seeds, steps) squared norms.

    First by seed, NaN where a norm is 0 at all steps; then the steps' influence on it, by the delta method.
    """
    known = ~np.isnan(squares[0])
    counts = np.where(known, 1.0, 0).sum(axis=-1)
    means = np.nansum(squares, axis=-1) / np.where(counts, counts, np.nan)
    means = np.where(means > 0, means, np.nan)[..., None]
    scaled = products / np.sqrt(means.prod(axis=0))
    by_seed = np.where(known, scaled, 0).sum(axis=-1) / counts.clip(1)
    by_seed = np.where(np.isnan(means[..., 0]).any(axis=0), np.nan, by_seed)
    return by_seed, scaled - by_seed[..., None] * (squares / means).sum(axis=0) / 2


def corrected_by_arm(halves: pd.DataFrame, steps: int, arm: str, confidence: float) -> pd.DataFrame:
    """Cosines of expected gradients: means over seeds of `halves`, the rows of `cosines_of_steps` of an arm's runs."""
    keys, rows = ["component_a", "component_b", "layer"], []
    for labels, of_layer in halves.groupby(keys, sort=False):
        by_seed = of_layer["estimate"].to_numpy(dtype=float)[None]
        found = over_seeds(by_seed, np.full((*by_seed.shape, 1), np.nan), confidence).clipped(-1, 1)
        if np.isfinite(by_seed).sum() == 1:  # one seed: its own interval, by leaving out steps
            ends = of_layer.dropna(subset="estimate")[["low", "high"]].to_numpy(dtype=float)
            found = Estimates(found.estimate, ends[:, 0], ends[:, 1], np.array([STEPS], dtype=object))
        values = {name: column[0] for name, column in found._asdict().items()}
        rows.append({**dict(zip(keys, labels, strict=True)), **values, "seeds": int(np.isfinite(by_seed).sum())})
    table = pd.DataFrame(rows)
    return table.assign(arm=arm, definition="alone", part=CORRECTED, folding_error=0.0, steps=steps) if rows else table


def cross_prompt_products_of_step(measured: MeasuredStep) -> np.ndarray:
    """Products of the gradients of each component alone over pairs of different prompts: (L + 1, K, K), `all` first."""
    by_block = [cross_prompt_products(block.grams, block.coefficients, block.prompts) for block in measured.alone]
    return with_all_layers(np.sum(by_block, axis=0), axis=0)


def cross_prompt_products(grams: np.ndarray, vectors: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """Inner products of (V, R) vectors over pairs of rows of different `prompts`, (R,): (..., V, V)."""
    # Up to a factor, which cancels in a cosine, this is the mean over all splits of prompts in halves.
    return np.asarray(vectors @ (grams * (prompts[:, None] != prompts)) @ vectors.T)


def cosine_with_interval(total: np.ndarray, left_out: np.ndarray, confidence: float) -> tuple[np.ndarray, ...]:
    """Cosines without noise, from mean products (..., K, K) and those without a step each, (..., G, K, K).

    Estimate, low and high, with jackknife intervals over steps. NaN with fewer than three steps, and where a squared
    norm is not above 0 by more than its margin of error: with mostly noise, it may have any value.
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
    """Cosines by layer and pair of a run's mean cross-prompt products; intervals leave out one step at a time."""
    stacked = np.stack(by_step, axis=1)  # (L + 1, T, K, K)
    total, steps = stacked.sum(axis=1), len(by_step)
    estimates = cosine_with_interval(total / steps, (total[:, None] - stacked) / max(1, steps - 1), confidence)
    rows = [
        (layer, components[a], components[b], *(float(values[number, a, b]) for values in estimates))
        for number, layer in enumerate([ALL_LAYERS, *layers])
        for a, b in combinations(range(len(components)), 2)
    ]
    return pd.DataFrame(rows, columns=["layer", "component_a", "component_b", "estimate", "low", "high"])
