"""Boundaries of group-sequential tests: how small a p-value must be at each look.

Whoever tests after two seeds, after three, after five and after eight, each time at 5 %, is wrong far more often than
in 5 % of studies. Error spending (Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika
1983) hands out the error over the looks. The significance-level approach (Jennison and Turnbull, "Group Sequential
Methods", 2000, section 3.8) works out the boundaries for normal scores, and takes them over as p-values: the p-values
may be those of Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from reward_ablation.config.sections.seeds import Spending

#: Nodes and weights of the numerical integration over the scores at one look; 101 give eight digits.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(101)

#: Scores that no p-value reaches.
FURTHEST = 37.0

#: Levels at which `level_reached` knows the boundaries: 20 a decade, between which it interpolates to four digits.
LEVELS = np.logspace(-12, np.log10(0.999), 241)


def pocock(level: float, fraction: float) -> float:
    """Error spent at an information fraction: early looks get about as much as late ones.

    Lan and DeMets' function whose boundaries are close to Pocock's (Biometrika 1977).
    """
    return float(level * np.log1p((np.e - 1) * fraction))


def obrien_fleming(level: float, fraction: float) -> float:
    """Error spent at an information fraction: next to nothing at early looks.

    Lan and DeMets' function whose boundaries are close to those of O'Brien and Fleming (Biometrics 1979); each side of
    the test spends half of the level.
    """
    return float(4 * ndtr(ndtri(level / 4) / np.sqrt(fraction)))


SPENDING: dict[Spending, Callable[[float, float], float]] = {"pocock": pocock, "obrien_fleming": obrien_fleming}


def information_fractions(looks: Sequence[int]) -> tuple[float, ...]:
    """Share of the seeds of the last look that each look has."""
    return tuple(look / looks[-1] for look in looks)


class _Paths:
    """Distribution of a Brownian motion that has crossed no boundary so far (Armitage, McPherson and Rowe 1969).

    The score of a look times the root of its information fraction is such a motion.
    """

    def __init__(self) -> None:
        self.fraction = 0.0
        self.places, self.masses = np.zeros(1), np.ones(1)

    def crossing(self, fraction: float, score: float) -> float:
        """Probability that the motion, inside so far, has an absolute score of at least `score` at this look."""
        width, end = np.sqrt(fraction - self.fraction), score * np.sqrt(fraction)
        outside = ndtr((-end - self.places) / width) + ndtr((self.places - end) / width)
        return float(self.masses @ outside)

    def go_on(self, fraction: float, score: float) -> None:
        """Keep the paths that stay inside at this look."""
        width, end = np.sqrt(fraction - self.fraction), score * np.sqrt(fraction)
        places = end * NODES
        density = np.exp(-(((places[:, None] - self.places) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
        self.places, self.masses, self.fraction = places, end * WEIGHTS * (density @ self.masses), fraction


def crossing_probabilities(scores: Sequence[float], fractions: Sequence[float]) -> list[float]:
    """Probability, without any difference, that each look is the first whose absolute score reaches its boundary."""
    paths, found = _Paths(), []
    for score, fraction in zip(scores, fractions, strict=True):
        found.append(paths.crossing(fraction, score))
        paths.go_on(fraction, score)
    return found


@lru_cache(maxsize=4096)
def boundaries(level: float, fractions: tuple[float, ...], spending: Spending) -> tuple[float, ...]:
    """Two-sided p-values at or below which a test rejects, by look.

    Parameters
    ----------
    level : float
        Probability, without any difference, that the test rejects at any of the looks; in (0, 1).
    fractions : tuple of float
        Information fractions of the looks, ascending to 1.
    spending : str
        How the level is handed out over the looks.
    """
    paths, spent, found = _Paths(), 0.0, []
    for fraction in fractions:
        due = SPENDING[spending](level, fraction) - spent
        spent += due
        score = _score(paths, fraction, due)
        paths.go_on(fraction, min(score, 9.0))  # no path is further out
        found.append(float(2 * ndtr(-score)))
    return tuple(found)


def _score(paths: _Paths, fraction: float, due: float) -> float:
    """The absolute score that is first reached at this look with probability `due`."""

    def missed(score: float) -> float:
        return paths.crossing(fraction, score) - due

    return float(brentq(missed, 0.0, FURTHEST, xtol=1e-10)) if missed(FURTHEST) < 0 < missed(0.0) else FURTHEST


@lru_cache(maxsize=16)
def _of_levels(look: int, fractions: tuple[float, ...], spending: Spending) -> np.ndarray:
    """Logarithms of a look's boundaries at the `LEVELS`, ascending."""
    return np.log(np.maximum([boundaries(level, fractions, spending)[look] for level in LEVELS], 1e-300))


def level_reached(p: np.ndarray, look: int, fractions: tuple[float, ...], spending: Spending) -> np.ndarray:
    """The smallest level at which a test rejects p-values at a look: the p-values that hold for all looks together.

    Liu and Anderson, "On adaptive extensions of group sequential trials for clinical investigations" (JASA 2008), call
    these sequential p-values. Below the smallest of `LEVELS` they are that level.
    """
    grid = _of_levels(look, fractions, spending)
    return np.asarray(np.exp(np.interp(np.log(np.maximum(p, 1e-300)), grid, np.log(LEVELS), right=0.0)))
