"""The noise of a training curve about its trend, and tests of linear contrasts of curves against that noise.

Neighbouring steps of a run give similar values: problems differ from step to step, but the policy wanders. A curve is
modelled as a smooth trend, a cubic by seed, plus a first-order autoregression. The coefficient is the one under which
the residuals' autocorrelation is expected to be as large as observed, because residuals of a fitted trend are less
alike than the noise (Andrews, "Exactly median-unbiased estimation of first order autoregressive/unit root models",
Econometrica 1993, does the same by medians). A coefficient near 1 is a random walk.

Contrasts are studentised, by the noise or by the spread of seeds where that is larger, and their distribution is
simulated: noise of the fitted kind about a straight line, with the noise fitted again to each simulated curve. The
largest of several contrasts is compared with the largest of the same contrasts in simulation (sup-t), so that the
search for the place of a change raises no false alarms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from reward_ablation.analysis.statistics.intervals import generator

#: Most points that a curve is averaged to; fewest points that separate noise from a trend.
MOST_POINTS, LEAST_POINTS = 40, 6

#: Possible coefficients of the autoregression. None is below 0, which would have no reason.
COEFFICIENTS = np.append(np.linspace(0, 0.9, 19), [0.93, 0.96, 0.98, 0.99])

#: Number of simulated curves of a test.
SIMULATED = 999


@cache
def points_of(steps: int) -> list[np.ndarray]:
    """Numbers of the steps that are averaged to each point of a curve."""
    return np.array_split(np.arange(steps), min(steps, MOST_POINTS))


def points(values: np.ndarray) -> np.ndarray | None:
    """(S, n) points of the curves of S seeds, from (S, T) values by step; unknown ones lie between their neighbours.

    None with too few steps, or where a seed knows less than half of its points.
    """
    if values.shape[1] < LEAST_POINTS:
        return None
    known = sums_of_points(np.isfinite(values))
    means = sums_of_points(np.where(np.isnan(values), 0.0, values)) / np.maximum(known, 1)
    if (known > 0).all():
        return means
    if (2 * (known > 0).sum(axis=1) < known.shape[1]).any():
        return None
    every = np.arange(known.shape[1])
    return np.array([np.interp(every, every[has], row[has]) for row, has in zip(means, known > 0, strict=True)])


def sums_of_points(values: np.ndarray) -> np.ndarray:
    """(S, n) sums over the steps of each point, from (S, T) values by step."""
    places, (seeds, steps) = points_of(values.shape[1]), values.shape
    size, larger_by_one = divmod(steps, len(places))
    end = larger_by_one * (size + 1)
    parts = values[:, :end].reshape(seeds, -1, size + 1), values[:, end:].reshape(seeds, -1, size)
    return np.concatenate([part.sum(axis=2) for part in parts], axis=1)


@dataclass(frozen=True)
class Design:
    """What the residuals of a trend say about the noise, for curves of n points.

    Parameters
    ----------
    correlations : (coefficients, n, n) array
        Correlations of noise with each of `COEFFICIENTS`.
    residuals : (n, n) array
        Projection of a curve to its residuals from the trend.
    size, likeness : (coefficients,) arrays
        Expected sum of squares of the residuals of noise with variance 1, and their expected autocorrelation.
    """

    correlations: np.ndarray
    residuals: np.ndarray
    size: np.ndarray
    likeness: np.ndarray


@cache
def design(count: int) -> Design:
    """The design of curves of `count` points: a cubic trend, or a lower degree where points are few."""
    degree = min(3, (count - 4) // 2)
    basis = np.linalg.qr(np.vander(np.linspace(-1, 1, count), degree + 1))[0]
    residuals = np.eye(count) - basis @ basis.T
    correlations = np.array([toeplitz(coefficient ** np.arange(count)) for coefficient in COEFFICIENTS])
    spread = residuals @ correlations @ residuals
    size = np.trace(spread, axis1=1, axis2=2)
    products = np.trace(spread, offset=1, axis1=1, axis2=2)
    return Design(correlations, residuals, size, np.maximum.accumulate(products / size))


def fitted(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The noise of (..., S, n) curves: the number of its coefficient in `COEFFICIENTS`, and its standard deviation.

    All S seeds of a curve share one noise.
    """
    count = curves.shape[-1]
    by = design(count)
    left = curves @ by.residuals
    squares = np.square(left).sum(axis=(-2, -1))
    products = (left[..., 1:] * left[..., :-1]).sum(axis=(-2, -1))
    likeness = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    place = np.minimum(np.searchsorted(by.likeness, likeness), len(COEFFICIENTS) - 1)
    return place, np.sqrt(squares / curves.shape[-2] / by.size[place])


@lru_cache(maxsize=32)
def simulated(place: int, seeds: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulated noise: curves, an (R, S, n) array, and the result of `fitted` for each."""
    rng = generator("reward_hacking", str(place), str(seeds), str(count))
    coefficient = COEFFICIENTS[place]
    shocks = rng.normal(size=(SIMULATED, seeds, count))
    shocks[..., 1:] *= np.sqrt(1 - coefficient**2)
    curves = lfilter([1.0], [1.0, -coefficient], shocks, axis=-1)
    return curves, *fitted(curves)


@dataclass(frozen=True)
class Contrasts:
    """K linear contrasts of the mean curve of S seeds.

    Parameters
    ----------
    by_seed : (S, K) array
        Contrasts of each seed.
    estimate, error : (K,) arrays
        Mean over seeds, and its standard error: the larger of that by the noise of the curves and that by the spread of
        seeds.
    drawn : (R, K) array
        Simulated estimates of curves without any change, in standard errors.
    """

    by_seed: np.ndarray
    estimate: np.ndarray
    error: np.ndarray
    drawn: np.ndarray

    @property
    def t(self) -> np.ndarray:
        """(K,) estimates in standard errors; without an error infinite where above 0, else 0."""
        certain = np.where(self.estimate > 0, np.inf, 0.0)
        return np.asarray(np.divide(self.estimate, self.error, out=certain, where=self.error > 0))

    def p(self, place: int) -> float:
        """One-sided p-value that one contrast is above 0, where it was chosen without a search."""
        return float(1 + (self.drawn[:, place] >= self.t[place]).sum()) / (1 + len(self.drawn))

    def largest(self) -> tuple[int, float]:
        """Number of the largest contrast in standard errors, and its one-sided p-value corrected for the search."""
        place = int(np.argmax(self.t))
        return place, float(1 + (self.drawn.max(axis=1) >= self.t[place]).sum()) / (1 + len(self.drawn))


def _sizes(weights: np.ndarray, seeds: int) -> np.ndarray:
    """(coefficients, K) standard errors of contrasts of the mean of noise with variance 1."""
    variances = ((weights @ design(weights.shape[1]).correlations) * weights).sum(axis=2)
    return np.asarray(np.sqrt(np.maximum(variances, 0) / seeds))


@lru_cache(maxsize=128)
def drawn_from_noise(place: int, seeds: int, count: int, weights: bytes) -> np.ndarray:
    """(R, K) contrasts of simulated noise in standard errors; cached, since all arms have the same contrasts."""
    of_weights = np.frombuffer(weights).reshape(-1, count)
    noise, places, deviations = simulated(place, seeds, count)
    of_noise = noise @ of_weights.T
    return of_noise.mean(axis=1) / larger(deviations[:, None] * _sizes(of_weights, seeds)[places], of_noise)


def contrasts(curves: np.ndarray, weights: np.ndarray) -> Contrasts:
    """Contrasts of (S, n) curves with (K, n) weights, which must give 0 for curves under the null hypothesis."""
    seeds, count = curves.shape
    place, deviation = (value.item() for value in fitted(curves))
    sizes = _sizes(weights, seeds)
    drawn = drawn_from_noise(place, seeds, count, weights.tobytes())
    by_seed = curves @ weights.T
    return Contrasts(by_seed, by_seed.mean(axis=0), larger(deviation * sizes[place], by_seed), drawn)


def larger(error: np.ndarray, by_seed: np.ndarray) -> np.ndarray:
    """(..., K) standard errors of means: by the noise, or by the spread of (..., S, K) seeds where that is larger."""
    seeds = by_seed.shape[-2]
    return np.maximum(error, by_seed.std(axis=-2, ddof=1) / np.sqrt(seeds)) if seeds > 1 else error


def wander(curves: np.ndarray, sampling: float) -> float:
    """Variance of a model's own level about the trend: variance of the noise of (S, n) points less that of sampling."""
    return max(0.0, fitted(curves)[1].item() ** 2 - sampling)
