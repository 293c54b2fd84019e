"""Boundaries of group-sequential tests, against published numbers."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from reward_ablation.design.group_sequential import (
    SPENDING,
    boundaries,
    information_fractions,
    level_reached,
)


def equal_looks(number):
    return tuple(look / number for look in range(1, number + 1))


# Reboussin, DeMets, Kim and Lan, "Computations for group sequential boundaries using the Lan-DeMets spending function
# method" (Controlled Clinical Trials 2000): five equal looks, two-sided level .05.
@pytest.mark.parametrize(
    ("spending", "scores"),
    [
        ("obrien_fleming", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_boundaries_are_lan_and_demets(spending, scores):
    found = boundaries(0.05, equal_looks(5), spending)
    assert -ndtri(np.array(found) / 2) == pytest.approx(scores, abs=2e-3)


def test_looks_that_come_at_once_are_one_test():
    assert boundaries(0.05, (1.0,), "pocock") == pytest.approx((0.05,))


@pytest.mark.parametrize("spending", SPENDING)
@pytest.mark.parametrize("look", range(4))
def test_a_p_value_on_the_boundary_of_a_level_reaches_this_level(spending, look):
    fractions = information_fractions([2, 3, 5, 8])
    for level in (0.3, 0.05, 0.0173, 1e-4):
        p = np.array([boundaries(level, fractions, spending)[look]])
        assert level_reached(p, look, fractions, spending) == pytest.approx(level, rel=1e-3)
    reached = level_reached(np.array([1e-30, 1e-4, 0.01, 0.2, 1.0]), look, fractions, spending)
    assert (np.diff(reached) >= 0).all()
    assert reached[-1] == 1.0
    assert (reached >= [1e-30, 1e-4, 0.01, 0.2, 1.0]).all()  # several looks never make a p-value smaller


def test_the_error_by_simulation():
    rng = np.random.default_rng(1)
    fractions = information_fractions([2, 3, 5, 8])
    steps = np.diff([0.0, *fractions])
    scores = np.cumsum(rng.normal(size=(200_000, 4)) * np.sqrt(steps), axis=1) / np.sqrt(fractions)
    p = 2 * ndtr(-np.abs(scores))
    for spending, spend in SPENDING.items():
        rejected = np.maximum.accumulate(p <= boundaries(0.05, fractions, spending), axis=1).mean(axis=0)
        spent = [spend(0.05, fraction) for fraction in fractions]  # up to each look; in the end the level
        assert rejected == pytest.approx(spent, abs=0.002)  # four standard errors
