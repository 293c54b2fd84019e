"""Similarity of the components' gradients in each arm, over its steps and seeds, with intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reward_ablation.analysis.statistics.intervals import means_with_intervals

#: A cosine and the parts that add up to it.
PARTS = ["cosine", "self", "same_prompt", "cross_prompt", "across_blocks"]
#: Parts that are not exact where large parameters are folded.
FOLDED = {"cosine", "across_blocks"}


def similarity_by_arm(similarities: pd.DataFrame, arm: str, resamples: int, confidence: float) -> pd.DataFrame:
    """Mean cosine and mean parts over the measured steps and seeds of one arm, with bootstrap intervals.

    Resamples draw seeds, and steps once for all seeds. Steps are taken as independent: each has rollouts of its own,
    but a policy that changes slowly makes neighbours alike, and then intervals are too narrow. `similarities` are the
    arm's rows of `similarity_by_step`.

    Returns
    -------
    Rows (definition, component_a, component_b, layer, part), layers in the model's order. Steps at which a gradient
    is zero are left out; with no other step, the estimate is null. `steps` counts the measured steps.
    `folding_error` is the largest of a single step's; the mean over steps is more exact.
    """
    tables = []
    for labels, of_pair in similarities.groupby(["definition", "component_a", "component_b"], sort=False):
        definition, first, second = map(str, labels)
        table = part_means(of_pair, (arm, definition, first, second), resamples, confidence)
        tables.append(table.assign(arm=arm, definition=definition, component_a=first, component_b=second))
    return pd.concat(tables) if tables else pd.DataFrame()


def part_means(of_pair: pd.DataFrame, labels: tuple[str, ...], resamples: int, confidence: float) -> pd.DataFrame:
    """Means of one pair of components: a row for each layer and part. `labels` decide the random numbers."""
    values = by_layer_seed_and_step(of_pair)
    parts, layers, seeds, steps = values.shape
    means, low, high = means_with_intervals(values.reshape(-1, seeds, steps), labels, resamples, confidence)
    folding = of_pair.groupby("layer", sort=False)["folding_error"].max().to_numpy(dtype=float)
    exact = np.where(np.isnan(folding), np.nan, 0.0)
    return pd.DataFrame(
        {
            "layer": np.tile(of_pair["layer"].unique(), parts),
            "part": np.repeat(PARTS, layers),
            "estimate": means,
            "low": low,
            "high": high,
            "folding_error": np.concatenate([folding if part in FOLDED else exact for part in PARTS]),
            "seeds": seeds,
            "steps": steps,
        }
    )


def by_layer_seed_and_step(of_pair: pd.DataFrame) -> np.ndarray:
    """Values of `PARTS` as (parts, layers, seeds, steps) array; NaN where there is none."""
    (layer, layers), (seed, seeds), (step, steps) = (
        pd.factorize(of_pair[column], sort=column != "layer") for column in ("layer", "seed", "step")
    )
    values = np.full((len(PARTS), len(layers), len(seeds), len(steps)), np.nan)
    values[:, layer, seed, step] = of_pair[PARTS].to_numpy(dtype=float).T
    return values
