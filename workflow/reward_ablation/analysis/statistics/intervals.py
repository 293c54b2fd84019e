"""Random numbers by label, shares of resampled seeds, questions and blocks of steps, and percentile intervals.

Estimates of evaluated models, correlations of scores and intervals of gradients share these parts, and so do the
simulations of `power` and `budget`. `level_of` is the level of the tests of differences, effects and claims, also where
the report and figures name it.
"""

from __future__ import annotations

import hashlib
from math import ceil

import numpy as np

#: Picks that are drawn at once: bounds the memory to some 50 MB whatever the number of questions.
PICKS_AT_ONCE = 2**20


def generator(*labels: str) -> np.random.Generator:
    """A random generator that depends on what is estimated, not on when it is estimated."""
    digest = hashlib.sha256("\x1f".join(labels).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def level_of(confidence: float) -> float:
    """The level of the tests, rounded since 1 − 0.95 is a little more than 0.05 in floating point."""
    return round(1 - confidence, 9)


def resampling_shares(resamples: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples, size) shares of `size` units in samples of `size` drawn with replacement; each row adds up to 1."""
    picks = rng.integers(size, size=(resamples, size)) + size * np.arange(resamples)[:, None]
    counts = np.bincount(picks.ravel(), minlength=resamples * size)
    return counts.reshape(resamples, size) / size


def percentile_interval(means: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the central interval that holds `confidence` of the resampled means that are not NaN, for each column."""
    levels = [(1 - confidence) / 2, (1 + confidence) / 2]
    gaps = np.isnan(means).any(axis=0)
    low, high = np.quantile(means, levels, axis=0)
    for column in np.flatnonzero(gaps):
        known = means[~np.isnan(means[:, column]), column]
        if len(known):
            low[column], high[column] = np.quantile(known, levels)
    return low, high


def block_length(steps: int) -> int:
    """Steps of a block: the cube root of all, rounded up, which is the rate of the best length (Künsch 1989)."""
    return ceil(steps ** (1 / 3))


def block_shares(resamples: int, steps: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples, steps) shares in samples of blocks of neighbouring steps, circular (Politis and Romano 1992)."""
    starts = rng.integers(steps, size=(resamples, ceil(steps / length)))
    picks = (starts[..., None] + np.arange(length)).reshape(resamples, -1)[:, :steps] % steps
    places = picks + steps * np.arange(resamples)[:, None]
    return np.bincount(places.ravel(), minlength=resamples * steps).reshape(resamples, steps) / steps
