"""Resampling the steps of training: in blocks, since neighbouring steps are alike."""

from __future__ import annotations

from math import ceil

import numpy as np


def block_length(steps: int, at_least: int = 1) -> int:
    """Steps of a block: the cube root of their number, the rate at which the best length grows (Künsch 1989)."""
    return min(steps, max(at_least, ceil(steps ** (1 / 3))))


def block_shares(resamples: int, steps: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Share of each step in samples made of blocks of neighbouring steps, drawn with replacement.

    The circular block bootstrap (Politis and Romano, "A circular block-resampling procedure for stationary data",
    1992): the first step follows the last, so that every step is drawn as often as any other.

    Returns
    -------
    (resamples, steps) array in [0, 1]; each row adds up to 1.
    """
    starts = rng.integers(steps, size=(resamples, ceil(steps / length)))
    picks = (starts[..., None] + np.arange(length)).reshape(resamples, -1)[:, :steps] % steps
    places = picks + steps * np.arange(resamples)[:, None]
    return np.bincount(places.ravel(), minlength=resamples * steps).reshape(resamples, steps) / steps
