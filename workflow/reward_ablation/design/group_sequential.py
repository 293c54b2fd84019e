"""Boundaries of group-sequential tests: how small a p-value must be at each look.

A study that tests after two, three, five and eight seeds, each time at 5 %, is wrong far more often than in 5 % of
cases. Error spending (Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983) divides
the error over the looks. The boundaries are computed for normal scores and then used as p-values, so that a test may
also use Student's t (the significance-level approach of Jennison and Turnbull, "Group Sequential Methods", 2000,
section 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from reward_ablation.config.sections.seeds import Spending

#: Nodes and weights of the numerical integration over the scores at one look; 101 nodes give eight digits.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(101)

#: A score that no p-value reaches.
FURTHEST = 37.0

#: Levels for which `level_reached` computes boundaries: 20 per decade. Interpolation between them has four digits.
LEVELS = np.logspace(-12, np.log10(0.999), 241)


def pocock(level: float, fraction: float) -> float:
    """Error spent up to an information fraction: early looks get about as much as late looks.

    Lan and DeMets' function whose boundaries are close to Pocock's (Biometrika 1977).
    """
    return float(level * np.log1p((np.e - 1) * fraction))


def obrien_fleming(level: float, fraction: float) -> float:
    """Error spent up to an information fraction: almost nothing at early looks.

    Lan and DeMets' function whose boundaries are close to those of O'Brien and Fleming (Biometrics 1979). Each side of
    the test spends half of the level.
    """
    return float(4 * ndtr(ndtri(level / 4) / np.sqrt(fraction)))


SPENDING: dict[Spending, Callable[[float, float], float]] = {"pocock": pocock, "obrien_fleming": obrien_fleming}


def information_fractions(looks: Sequence[int]) -> tuple[float, ...]:
    """Information fraction of each look: its number of seeds over the number of seeds at the last look."""
    return tuple(look / looks[-1] for look in looks)


class _Paths:
    """Distribution of a Brownian motion that has crossed no boundary so far (Armitage, McPherson and Rowe 1969).

    The score at a look, times the square root of the look's information fraction, is such a motion.
    """

    def __init__(self) -> None:
        self.fraction = 0.0
        self.values, self.masses = np.zeros(1), np.ones(1)

    def crossing(self, fraction: float, score: float) -> float:
        """Probability that the motion was inside so far, and has an absolute score of at least `score` at this look."""
        width, end = np.sqrt(fraction - self.fraction), score * np.sqrt(fraction)
        outside = ndtr((-end - self.values) / width) + ndtr((self.values - end) / width)
        return float(self.masses @ outside)

    def go_on(self, fraction: float, score: float) -> None:
        """Keep the paths whose absolute score stays below `score` at this look."""
        width, end = np.sqrt(fraction - self.fraction), score * np.sqrt(fraction)
        values = end * NODES
        density = np.exp(-(((values[:, None] - self.values) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
        self.values, self.masses, self.fraction = values, end * WEIGHTS * (density @ self.masses), fraction


@lru_cache(maxsize=4096)
def boundaries(level: float, fractions: tuple[float, ...], spending: Spending) -> tuple[float, ...]:
    """Two-sided p-values at or below which a test rejects, by look.

    `level`, the probability that the test rejects at any look if there is no difference, is divided over the looks by
    the spending function. `fractions` are the information fractions of the looks, ascending to 1.
    """
    paths, spent, p_values = _Paths(), 0.0, []
    for fraction in fractions:
        error = SPENDING[spending](level, fraction) - spent
        spent += error
        score = _score(paths, fraction, error)
        paths.go_on(fraction, min(score, 9.0))  # no path is further out
        p_values.append(float(2 * ndtr(-score)))
    return tuple(p_values)


def _score(paths: _Paths, fraction: float, error: float) -> float:
    """The absolute score that is reached for the first time at this look with probability `error`."""

    def excess(score: float) -> float:
        return paths.crossing(fraction, score) - error

    return float(brentq(excess, 0.0, FURTHEST, xtol=1e-10)) if excess(FURTHEST) < 0 < excess(0.0) else FURTHEST


@lru_cache(maxsize=16)
def _log_boundaries(look: int, fractions: tuple[float, ...], spending: Spending) -> np.ndarray:
    """Logarithms of a look's boundaries at the `LEVELS`, ascending."""
    return np.log(np.maximum([boundaries(level, fractions, spending)[look] for level in LEVELS], 1e-300))


def level_reached(p: np.ndarray, look: int, fractions: tuple[float, ...], spending: Spending) -> np.ndarray:
    """Correct p-values at a look for all looks: for each, the smallest level at which the test rejects.

    Liu and Anderson, "On adaptive extensions of group sequential trials for clinical investigations" (JASA 2008), call
    these sequential p-values. The smallest value that is returned is the smallest of `LEVELS`.
    """
    grid = _log_boundaries(look, fractions, spending)
    return np.asarray(np.exp(np.interp(np.log(np.maximum(p, 1e-300)), grid, np.log(LEVELS), right=0.0)))
