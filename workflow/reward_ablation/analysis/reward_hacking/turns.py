"""Whether a curve falls towards its end, or another rises, by more than its noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

#: Segments that the steps of a run are split into, and fewest steps of one.
SEGMENTS, LEAST_STEPS = 8, 2


@dataclass(frozen=True)
class Turn:
    """A curve's highest place and its end.

    Parameters
    ----------
    place : int
        Place of the highest point.
    before, after : float
        Value there, and at the end.
    fall, low, high : float
        before - after, and its interval at the level that was asked for, with room for having looked for the place.
    """

    place: int
    before: float
    after: float
    fall: float
    low: float
    high: float

    @property
    def beyond_noise(self) -> bool:
        """Whether the fall is told from none."""
        return bool(self.low > 0)


def segments_of(steps: int) -> list[np.ndarray]:
    """Places of the steps of each segment: `SEGMENTS` of nearly equal size, fewer where steps are few."""
    return np.array_split(np.arange(steps), max(1, min(SEGMENTS, steps // LEAST_STEPS)))


def segment_points(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, B) means of a quantity over segments of steps and their standard errors; NaN where a segment has no value.

    The variance of a step is half the mean squared difference of neighbouring steps (von Neumann et al., "The mean
    square successive difference", 1941): a trend hardly adds to it. `values` is an (S, T) array by seed and step; NaN
    where unknown.
    """
    differences = np.diff(values, axis=1)
    known = np.isfinite(differences)
    variance = np.square(differences[known]).mean() / 2 if known.any() else np.nan
    means, errors = [], []
    for places in segments_of(values.shape[1]):
        counts = np.isfinite(values[:, places]).sum(axis=1)
        sums = np.nansum(values[:, places], axis=1)
        means.append(np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0))
        errors.append(np.sqrt(np.divide(variance, counts, out=np.full(len(values), np.nan), where=counts > 0)))
    return np.array(means).T, np.array(errors).T


def contrast(means: np.ndarray, errors: np.ndarray, before: int, after: int) -> tuple[float, float]:
    """Mean over seeds of the difference between two of the (S, B) points, and its standard error.

    With two seeds or more the error is the larger of that of the points' own noise and that of the seeds' spread.
    """
    differences = means[:, before] - means[:, after]
    seeds = len(differences)
    own = float(np.sqrt(np.square(errors[:, [before, after]]).sum()) / seeds)
    spread = float(differences.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0
    return float(differences.mean()), max(own, spread)


def last_fall(means: np.ndarray, errors: np.ndarray, level: float) -> Turn | None:
    """The fall of a curve from its highest point to its last, with a one-sided test against noise.

    Every earlier point is compared with the last, and the error rate divided by their number (Bonferroni), so that
    picking the highest raises no false alarm. None with fewer than two points that are known.

    Parameters
    ----------
    means, errors : (S, B) array
        Points of each seed in order of time, or of all seeds together (S = 1), with standard errors.
    level : float
        Chance of a false alarm for a curve that does not fall, such as .05.
    """
    known = np.flatnonzero(np.isfinite(means).all(axis=0) & np.isfinite(errors).all(axis=0))
    if len(known) < 2:
        return None
    means, errors = means[:, known], errors[:, known]
    last = means.shape[1] - 1
    curve = means.mean(axis=0)
    place = int(np.argmax(curve[:-1]))
    fall, error = contrast(means, errors, place, last)
    margin = float(norm.isf(level / last)) * error
    return Turn(int(known[place]), float(curve[place]), float(curve[last]), fall, fall - margin, fall + margin)


def rise_between(means: np.ndarray, errors: np.ndarray, first: int, level: float) -> Turn:
    """The rise from one point to the last, tested one-sided; `fall` of the result is the rise."""
    last = means.shape[1] - 1
    difference, error = contrast(means, errors, last, first)
    margin = float(norm.isf(level)) * error
    curve = means.mean(axis=0)
    return Turn(first, float(curve[first]), float(curve[last]), difference, difference - margin, difference + margin)
