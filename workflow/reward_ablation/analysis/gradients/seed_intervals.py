"""Intervals of means, or of ratios of means, over few seeds, by Student's t.

The tables of gradients and of methods of combination call it.

Seeds are what is independent in a study: the steps of a run share its policy, so that they do not count as more
seeds. A bootstrap of two or three seeds is too narrow (docs/gradients.md has the numbers).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from reward_ablation.analysis.statistics.intervals import block_length
from reward_ablation.combination.normalisation import nan_mean

#: What an interval generalises to: other seeds, or only other steps of the one seed.
SEEDS, STEPS = "seeds", "steps"


class Estimates(NamedTuple):
    """Estimates of M quantities with intervals, (M,) arrays; `interval`: over `SEEDS` or `STEPS`, None without one."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    interval: np.ndarray

    def clipped(self, least: float | np.ndarray, most: float | np.ndarray) -> Estimates:
        """The same estimates, clipped to the range that the values can have."""
        estimate, low, high = (np.clip(values, least, most) for values in self[:3])
        return Estimates(estimate, low, high, self.interval)


def over_seeds(by_seed: np.ndarray, by_step: np.ndarray, confidence: float) -> Estimates:
    """Means over seeds with intervals by Student's t; of a single seed, over its steps (`margin_over_steps`).

    `by_seed`, (M, S), has each quantity in each seed. `by_step`, (M, S, T), has the steps' values if the seed's value
    is their mean, else their influence on it (the delta method), of which only the spread counts. NaN is not known.
    """
    known = ~np.isnan(by_seed)
    seeds = known.sum(axis=1)
    estimate = np.where(known, by_seed, 0).sum(axis=1) / np.where(seeds, seeds, np.nan)
    squares = np.where(known, np.square(by_seed - estimate[:, None]), 0).sum(axis=1)
    degrees = np.maximum(seeds - 1, 1)
    margin = stdtrit(degrees, (1 + confidence) / 2) * np.sqrt(squares / degrees / seeds.clip(1))
    interval = np.full(len(seeds), SEEDS, dtype=object)
    for row in np.flatnonzero(seeds < 2):  # these have no spread over seeds
        of_steps = by_step[row, np.argmax(known[row])] if seeds[row] else np.array([])
        margin[row] = margin_over_steps(of_steps[~np.isnan(of_steps)], confidence)
        interval[row] = None if np.isnan(margin[row]) else STEPS
    return Estimates(estimate, estimate - margin, estimate + margin, interval)


def margin_over_steps(values: np.ndarray, confidence: float) -> float:
    """Half the width of an interval for the mean of a run's (T,) steps, whose neighbours are alike; NaN with T < 4."""
    # The standard error is that of the circular block bootstrap (Politis and Romano 1992), which for a mean needs no
    # resampling, times √(B / (B - 1)) for B blocks, not always whole; B - 1 are the degrees of freedom.
    steps = len(values)
    length = block_length(steps) if steps else 1
    blocks = steps / length
    if blocks < 2:
        return float("nan")
    circle = np.concatenate([values, values[: length - 1]])
    means = np.convolve(circle, np.full(length, 1 / length), mode="valid")
    return float(stdtrit(blocks - 1, (1 + confidence) / 2) * means.std() / np.sqrt(blocks - 1))


def means_over_steps_and_seeds(values: np.ndarray, confidence: float) -> Estimates:
    """Means over steps and then over seeds of an (M, S, T) array; NaN where a value is not known."""
    return over_seeds(nan_mean(values, -1)[..., 0], values, confidence)
