"""When a claim is supported, contradicted or undecided: hand-made numbers."""

import numpy as np
import pytest

from reward_ablation.analysis.claims import p_of_ends, verdict
from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    distribution,
    intervals,
    p_equivalent,
    p_values,
    resampled_seeds,
)
from reward_ablation.study.claims import Claim


def claim(direction: str, margin: float = 0.0) -> Claim:
    names = {"name": "c", "says": "so", "metric": "format", "arm": "a", "against": "b"}
    return Claim(**names, direction=direction, margin=margin, dataset="test", mode="greedy")


@pytest.mark.parametrize(
    ("direction", "margin", "low", "high", "found"),
    [
        ("higher", 0.0, -0.01, 0.20, "undecided"),
        ("higher", 0.0, -0.20, -0.01, "contradicted"),
        ("higher", 0.05, 0.06, 0.20, "supported"),
        ("higher", 0.05, 0.01, 0.04, "contradicted"),  # above 0, and by less than the margin
        ("higher", 0.05, 0.05, 0.20, "undecided"),  # reaches the margin
        ("lower", 0.05, -0.20, -0.06, "supported"),
        ("lower", 0.05, -0.20, -0.04, "undecided"),
        ("lower", 0.05, -0.04, 0.10, "contradicted"),
        ("same", 0.05, 0.01, 0.04, "supported"),  # a difference that is too small to matter
        ("same", 0.05, -0.06, 0.04, "undecided"),
        ("same", 0.05, 0.06, 0.20, "contradicted"),
        ("same", 0.05, -0.20, -0.06, "contradicted"),
        ("higher", 0.0, float("nan"), float("nan"), "undecided"),
    ],
)
def test_a_verdict_follows_from_where_the_interval_lies(direction, margin, low, high, found):
    assert verdict(claim(direction, margin), low, high, p_holm=0.01, confidence=0.95) == found


@pytest.mark.parametrize(("p_holm", "ends"), [(0.05, (0.01, 0.2)), (float("nan"), (-0.2, -0.01))])
def test_nothing_is_decided_that_does_not_hold_for_all_claims_together(p_holm, ends):
    assert verdict(claim("higher"), *ends, p_holm=p_holm, confidence=0.95) == "undecided"


def of(values: np.ndarray, low: float = -1.0, high: float = 1.0) -> Distribution:
    """Distribution of the mean of one metric's (seeds, questions) differences."""
    by_seed = resampled_seeds(values[None], "test", 2000)
    return distribution(values[None], by_seed, "test", (np.array([low]), np.array([high])))


@pytest.fixture(scope="module")
def noisy() -> Distribution:
    """Differences of 3 seeds on 200 questions with mean near 0.1."""
    rng = np.random.default_rng(5)
    return of(np.clip(rng.normal(0.1, 0.4, (3, 200)), -1, 1))


@pytest.mark.parametrize(("direction", "margin"), [("higher", 0.06), ("lower", 0.05), ("same", 0.18)])
def test_an_interval_of_one_minus_p_just_reaches_the_nearer_end(noisy, direction, margin):
    made = claim(direction, margin)
    p = p_of_ends(made, noisy, 0)
    assert 1e-9 < p < 1
    low, high = (float(end[0]) for end in intervals(noisy, 1 - p))
    ends = {"higher": [margin], "lower": [-margin], "same": [-margin, margin]}[direction]
    assert min(abs(reached - end) for reached in (low, high) for end in ends) < 1e-6


def test_a_claim_above_0_has_the_p_value_of_the_difference(noisy):
    assert p_of_ends(claim("higher"), noisy, 0) == p_of_ends(claim("lower"), noisy, 0) == p_values(noisy)[0]


def test_same_has_twice_the_p_value_of_two_one_sided_tests(noisy):
    assert p_of_ends(claim("same", 0.18), noisy, 0) == pytest.approx(2 * p_equivalent(noisy, 0.18)[0], rel=1e-6)
