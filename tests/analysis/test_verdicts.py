"""When a claim is supported, contradicted or undecided: hand-made numbers."""

import numpy as np
import pytest

from reward_ablation.analysis.claims import p_of_ends, verdict
from reward_ablation.analysis.evaluation.answers import Answered, distribution_of_difference
from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    distribution,
    holm,
    intervals,
    p_equivalent,
    p_values,
    resampled_seeds,
)
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.study.claims import Claim


def claim(direction: str, margin: float = 0.0) -> Claim:
    names = {"name": "c", "says": "so", "metric": "format", "arm": "a", "against": "b"}
    return Claim(**names, direction=direction, margin=margin, dataset="test", mode="greedy")


@pytest.mark.parametrize(
    ("direction", "margin", "low", "high", "found"),
    [
        ("higher", 0.0, 0.01, 0.20, "supported"),
        ("higher", 0.0, -0.01, 0.20, "undecided"),
        ("higher", 0.0, -0.20, -0.01, "contradicted"),
        ("higher", 0.05, 0.06, 0.20, "supported"),
        ("higher", 0.05, 0.01, 0.20, "undecided"),  # above 0, and perhaps by less than the margin
        ("higher", 0.05, 0.01, 0.04, "contradicted"),  # above 0, and by less than the margin
        ("higher", 0.05, 0.05, 0.20, "undecided"),  # reaches the margin
        ("lower", 0.0, -0.20, -0.01, "supported"),
        ("lower", 0.05, -0.20, -0.06, "supported"),
        ("lower", 0.05, -0.20, -0.04, "undecided"),
        ("lower", 0.05, -0.04, 0.10, "contradicted"),
        ("lower", 12.0, -30.0, -13.0, "supported"),  # tokens
        ("same", 0.05, -0.04, 0.04, "supported"),
        ("same", 0.05, 0.01, 0.04, "supported"),  # a difference that is too small to matter
        ("same", 0.05, -0.06, 0.04, "undecided"),
        ("same", 0.05, 0.04, 0.06, "undecided"),
        ("same", 0.05, 0.06, 0.20, "contradicted"),
        ("same", 0.05, -0.20, -0.06, "contradicted"),
        ("higher", 0.0, float("nan"), float("nan"), "undecided"),
    ],
)
def test_a_verdict_follows_from_where_the_interval_lies(direction, margin, low, high, found):
    assert verdict(claim(direction, margin), low, high, p_holm=0.01, confidence=0.95) == found


@pytest.mark.parametrize("p_holm", [0.05, 0.3, 1.0, float("nan")])
@pytest.mark.parametrize("ends", [(0.01, 0.2), (-0.2, -0.01)])
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


@pytest.mark.parametrize(
    ("direction", "margin"), [("higher", 0.0), ("higher", 0.06), ("higher", 0.2), ("lower", 0.05), ("same", 0.18)]
)
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


def test_where_all_differences_are_equal_p_counts_questions():
    # 20 questions that all differ by 1: Clopper and Pearson's interval reaches 2 (from 1 down to -1) times
    # 1 - (p / 2)^(1 / 20) below. It just holds 0.5 where that is 0.5: p = 2 * 0.75^20 = .006.
    found = p_of_ends(claim("higher", 0.5), of(np.ones((3, 20))), 0)
    assert found == pytest.approx(2 * 0.75**20, rel=0.5)
    assert intervals(of(np.ones((3, 20))), 1 - found)[0][0] == pytest.approx(0.5)


def test_p_of_a_margin_is_that_of_values_moved_by_it():
    values = np.random.default_rng(6).normal(0.3, 0.5, (4, 50))
    moved = of(values - 0.25, low=-np.inf, high=np.inf)
    assert p_of_ends(claim("higher", 0.25), of(values, -np.inf, np.inf), 0) == pytest.approx(
        p_values(moved)[0], rel=1e-4
    )


#: Claims on four arms that are all alike: whatever is decided is decided wrongly.
ON_EQUAL_ARMS = [
    ("b", "a", "higher", 0.0),
    ("c", "a", "lower", 0.0),
    ("c", "b", "higher", 0.0),
    ("d", "a", "higher", 0.0),
]


def decided_claims(rng: np.random.Generator, seeds: int, questions: int) -> int:
    """Number of claims that a simulated study decides, whose arms are alike and whose seeds differ."""
    easy, names = rng.uniform(0.2, 0.9, questions), ["a", "b", "c", "d"]
    right = np.clip(easy + rng.normal(0, 0.05, (4, seeds, 1)), 0, 1)
    values = (rng.random((4, seeds, questions)) < right).astype(float)
    arms = {
        name: Answered(["format"], [*range(seeds)], of_arm[None], resampled_seeds(of_arm[None], "sim", 200), [SHARE])
        for name, of_arm in zip(names, values, strict=True)
    }
    means = SeedMeans(names, [*range(seeds)], values.mean(axis=2)[None], [SHARE], questions)
    made, ends, p = [], [], []
    for arm, against, direction, margin in ON_EQUAL_ARMS:
        found, _ = distribution_of_difference(arms[arm], arms[against], arm, against, "sim", means)
        made.append(claim(direction, margin))
        ends.append([float(end[0]) for end in intervals(found, 0.95)])
        p.append(p_of_ends(made[-1], found, 0))
    cases = zip(made, ends, holm(np.array(p)), strict=True)
    return sum(verdict(one, low, high, p_holm, 0.95) != "undecided" for one, (low, high), p_holm in cases)


@pytest.mark.slow
def test_few_studies_of_equal_arms_decide_any_of_their_claims():
    rng = np.random.default_rng(11)
    wrong = sum(decided_claims(rng, seeds=3, questions=100) > 0 for _ in range(300))
    assert wrong <= 15  # 5 %
