"""When a claim is supported, contradicted or undecided: hand-made numbers."""

import numpy as np
import pytest

from reward_ablation.analysis.claims import p_of_ends, verdict
from reward_ablation.analysis.statistics.estimates import distribution, intervals, p_values, resampled_seeds
from reward_ablation.study.claims import Claim


def claim(direction: str, margin: float = 0.0) -> Claim:
    names = {"name": "c", "says": "so", "metric": "format", "arm": "a", "against": "b"}
    return Claim(**names, direction=direction, margin=margin, dataset="test", mode="greedy")


@pytest.mark.parametrize(
    ("direction", "margin", "low", "high", "found"),
    [
        ("higher", 0.0, -0.01, 0.20, "undecided"),
        ("higher", 0.05, 0.06, 0.20, "supported"),
        ("higher", 0.05, 0.01, 0.04, "contradicted"),  # above 0, and by less than the margin
        ("higher", 0.05, 0.05, 0.20, "undecided"),  # reaches the margin
        ("lower", 0.05, -0.20, -0.06, "supported"),
        ("lower", 0.05, -0.04, 0.10, "contradicted"),
        ("same", 0.05, 0.01, 0.04, "supported"),  # a difference that is too small to matter
        ("same", 0.05, -0.06, 0.04, "undecided"),
        ("same", 0.05, -0.20, -0.06, "contradicted"),
        ("higher", 0.0, float("nan"), float("nan"), "undecided"),
    ],
)
def test_a_verdict_follows_from_where_the_interval_lies(direction, margin, low, high, found):
    assert verdict(claim(direction, margin), low, high, p_holm=0.01, confidence=0.95) == found


@pytest.mark.parametrize(("p_holm", "ends"), [(0.05, (0.01, 0.2)), (float("nan"), (-0.2, -0.01))])
def test_nothing_is_decided_that_does_not_hold_for_all_claims_together(p_holm, ends):
    assert verdict(claim("higher"), *ends, p_holm=p_holm, confidence=0.95) == "undecided"


@pytest.mark.parametrize(("direction", "margin"), [("higher", 0.06), ("lower", 0.05), ("same", 0.18)])
def test_an_interval_of_one_minus_p_just_reaches_the_nearer_end(direction, margin):
    values = np.clip(np.random.default_rng(5).normal(0.1, 0.4, (1, 3, 200)), -1, 1)
    noisy = distribution(values, resampled_seeds(values, "test", 2000), "test", (np.array([-1.0]), np.array([1.0])))
    p = p_of_ends(claim(direction, margin), noisy, 0)
    assert 1e-9 < p < 1
    low, high = (float(end[0]) for end in intervals(noisy, 1 - p))
    ends = {"higher": [margin], "lower": [-margin], "same": [-margin, margin]}[direction]
    assert min(abs(reached - end) for reached in (low, high) for end in ends) < 1e-6
    assert p_of_ends(claim("lower"), noisy, 0) == p_values(noisy)[0]
