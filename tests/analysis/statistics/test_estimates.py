"""Means over seeds and questions, paired and unpaired: intervals and tests against numbers by hand."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    Sample,
    distribution,
    distribution_of_unpaired_difference,
    holm,
    intervals,
    p_equivalent,
    p_values,
    resampled_seeds,
    spread,
    spread_of_two,
)
from reward_ablation.analysis.statistics.intervals import generator, percentile_interval
from reward_ablation.analysis.statistics.seed_variance import SeedVariance


def of(values: np.ndarray, low: float = 0.0, high: float = 1.0, resamples: int = 2000) -> Distribution:
    limits = (np.full(len(values), low), np.full(len(values), high))
    return distribution(values, resampled_seeds(values, "data", resamples), "data", limits)


def one(values: np.ndarray, confidence: float = 0.95, **limits: float) -> tuple[float, float]:
    low, high = intervals(of(values[None], **limits), confidence)
    return float(low[0]), float(high[0])


# Two seeds, three questions: [[0, 2, 4], [2, 2, 8]]. Seed means 2 and 4, question means 1, 2 and 6, mean 3.
# Sums of squares: seeds 3 (1 + 1) = 6; questions 2 (4 + 1 + 9) = 28; all 9 + 1 + 1 + 1 + 1 + 25 = 38; rest 4.
# Mean squares 6 / 1, 28 / 2 = 14, 4 / 2 = 2. Variance of the mean (6 + 14 - 2) / 6 = 3, a third of it of seeds.
TWO_WAY = np.array([[[0.0, 2.0, 4.0], [2.0, 2.0, 8.0]]])


def test_variance_of_a_mean_is_that_of_the_two_way_analysis():
    found, of_one_seed = spread(TWO_WAY), spread(TWO_WAY[:, :1])
    assert (found.of_seeds[0], found.of_questions[0]) == pytest.approx((1, sqrt(2)))
    assert (of_one_seed.of_seeds[0], of_one_seed.of_questions[0]) == pytest.approx((0, sqrt(4 / 3)))  # 0, 2, 4


def test_seeds_that_agree_by_chance_leave_half_of_what_questions_tell():
    found = spread(np.array([[[1.0, 0.0] * 50, [0.0, 1.0] * 50]]))  # both seeds .5, all questions .5
    assert found.of_seeds[0] == found.of_questions[0] == 0
    assert found.least[0] == pytest.approx(0.5 * sqrt(50 / 99 / 200))  # residual sum of squares 50, of 99 degrees
    equal = np.full((1, 3, 100), 0.3)
    equal[0, 1] += 1e-16
    assert spread(equal).least[0] == 0  # rounding is no spread


def test_rare_answers_have_clopper_and_pearsons_interval():
    assert one((np.arange(200) < 4)[None].astype(float)) == pytest.approx((0.0055, 0.0504), abs=0.004)
    assert one(np.full((3, 100), 1.0)) == pytest.approx((0.9638, 1.0), abs=1e-4)  # 1 - .025 ** (1 / 100)
    no_difference = of(np.zeros((1, 3, 100)), low=-1.0)
    assert [end[0] for end in intervals(no_difference, 0.95)] == pytest.approx([-0.0362, 0.0362], abs=1e-4)
    assert p_equivalent(no_difference, 0.0363)[0] == pytest.approx(0.025, abs=0.001)
    assert p_equivalent(no_difference, 0.02)[0] > 0.1


@pytest.mark.parametrize(("seeds", "shift"), [(1, 0.1), (3, -0.1)])
def test_p_is_where_an_interval_just_holds_zero(seeds, shift):
    rng = np.random.default_rng([seeds, 4])
    values = shift + rng.normal(0, 0.5, (seeds, 60)) + rng.normal(0, 0.03, (seeds, 1))
    found = of(values[None], low=-np.inf, high=np.inf)
    p = float(p_values(found)[0])
    wide, narrow = intervals(found, 1 - 0.99 * p), intervals(found, 1 - 1.01 * p)
    assert wide[0][0] < 0 < wide[1][0]
    assert not narrow[0][0] <= 0 <= narrow[1][0]


def test_p_of_no_difference_is_one_and_of_a_large_one_below_what_resamples_can_count():
    values = np.stack([np.zeros((2, 50)), np.tile([0.5, -0.5], (2, 25))])
    assert p_values(of(values, low=-1)).tolist() == [1.0, 1.0]
    large = np.random.default_rng(6).normal(1, 1, (1, 1, 300))
    assert 0 < p_values(of(large, low=-np.inf, high=np.inf, resamples=200))[0] < 1e-6


def test_equivalence_is_that_of_two_one_sided_t_tests():
    values = np.random.default_rng(7).normal(0.05, 1, (3, 1, 400)) + np.array([0.0, 0.1, -0.2])[:, None, None]
    found = p_equivalent(of(values, low=-np.inf, high=np.inf), 0.15)
    expected = [DescrStatsW(row).ttost_mean(-0.15, 0.15)[0] for row in values[:, 0]]
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.01)


def test_a_variance_between_seeds_that_is_given_takes_the_place_of_the_own():
    values = np.array([[[0.4] * 50 + [0.2] * 50, [0.6] * 50 + [0.4] * 50]])
    given = SeedVariance(np.array([0.08]), np.array([2.0]))
    found = distribution(values, resampled_seeds(values, "data", 500), "data", (np.zeros(1), np.ones(1)), given)
    assert found.spread.of_seeds[0] == pytest.approx(0.2)
    assert found.spread.degrees[0] == 2
    assert p_values(found)[0] != pytest.approx(p_values(of(values))[0], rel=0.1)


def test_seeds_of_equal_values_leave_doubt_about_other_seeds():
    values = np.ones((1, 2, 100))
    given = SeedVariance(np.array([0.02**2]), np.array([2.0]))
    found = distribution(values, resampled_seeds(values, "data", 500), "data", (np.zeros(1), np.ones(1)), given)
    low, high = intervals(found, 0.95)
    of_seeds, of_questions = student.ppf(0.975, 2) * 0.02 / sqrt(2), 1 - 0.025 ** (1 / 100)
    assert (low[0], high[0]) == pytest.approx((1 - sqrt(of_seeds**2 + of_questions**2), 1.0), abs=1e-3)
    # A difference on every question of two seeds is not certain, either.
    whole = distribution(values, resampled_seeds(values, "data", 500), "data", (-np.ones(1), np.ones(1)), given)
    assert 1e-4 < p_values(whole)[0] < 1e-3


def test_holm():
    # Four p-values: .01 x 4, .02 x 3, .03 x 2, and .9, each at least the one before.
    assert holm(np.array([0.03, 0.01, 0.9, 0.02])).tolist() == pytest.approx([0.06, 0.04, 0.9, 0.06])
    p = np.random.default_rng(8).random(20)
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


def test_resamples_add_up_across_arms():
    first, second = np.random.default_rng(9).random((2, 3, 4, 50))
    parts = [resampled_seeds(values, "data", 100) for values in (first, second, first - second)]
    np.testing.assert_allclose(parts[0] - parts[1], parts[2], atol=1e-6)
    assert generator("arm", "gsm8k").random() != generator("armg", "sm8k").random()


UNLIMITED = (np.array([-np.inf]), np.array([np.inf]))


@pytest.mark.parametrize(("seeds", "questions"), [(1, 1), (2, 3)])
def test_two_arms_that_are_equal_may_differ_elsewhere_by_as_much_as_they_have(seeds, questions):
    arm = np.full((1, seeds, questions), 256.0)
    by_seed = resampled_seeds(arm, "data", 200)
    paired = distribution(arm - arm, by_seed - by_seed, "data", UNLIMITED, scale=np.array([256.0]))
    apart = distribution_of_unpaired_difference(Sample(arm, by_seed), Sample(arm, by_seed), "data", UNLIMITED)
    most = 256 * (1 - 0.025 ** (1 / questions))  # Clopper and Pearson
    for found in (paired, apart):
        low, high = intervals(found, 0.95)
        assert (low[0], high[0]) == pytest.approx((-most, most))
        assert p_values(found, 1.0)[0] > 0.9


def test_the_scale_of_a_difference_does_not_count_where_not_all_differences_are_equal():
    by_level = np.repeat(np.array([[1.0], [2.0]]), 3, axis=1)[None]  # seeds differ, questions do not
    for differences in (np.array([[[0.0, 1.0, 2.0]]]), by_level):
        by_seed = resampled_seeds(differences, "data", 200)
        plain, scaled = (distribution(differences, by_seed, "data", UNLIMITED, scale=scale) for scale in (0.0, 99.0))
        assert [part.tolist() for part in plain.spread] == [part.tolist() for part in scaled.spread]


def sample(values, variance: SeedVariance | None = None) -> Sample:
    array = np.asarray(values, dtype=float)[None]
    return Sample(array, resampled_seeds(array, "data", 4000), variance)


def by_seed(means, questions):
    """Question means of seeds whose questions do not differ."""
    return np.repeat(np.array(means, dtype=float)[:, None], questions, axis=1)


def test_each_arm_has_its_own_moderated_variance():
    moderated = SeedVariance(np.array([0.04]), np.array([2.0]))
    own, other = sample(by_seed([0.5, 0.7], 1000), moderated), sample(by_seed([0.1, 0.4, 0.4, 0.5], 1000))
    found = spread_of_two(own, other)
    errors = [sqrt(0.04 / 2), np.std([0.1, 0.4, 0.4, 0.5], ddof=1) / 2]
    assert found.of_seeds[:, 0] == pytest.approx(errors)
    assert found.degrees[:, 0].tolist() == [2, 3]
    mean = distribution_of_unpaired_difference(own, other, "data", UNLIMITED)
    assert mean.estimate[0] == pytest.approx(0.6 - 0.35)
    margin = np.hypot(*(student.ppf(0.975, [2, 3]) * errors))  # margins add up by their squares
    assert mean.margin(lambda degrees: student.ppf(0.975, degrees))[0] == pytest.approx(margin, rel=1e-4)


def test_questions_are_paired():
    # Questions differ by .8, the difference of the arms by nothing: question means 0, .8 and .1, .9, seeds alike.
    hard = np.array([[0.0, 0.8], [0.0, 0.8]])
    assert spread_of_two(sample(hard), sample(np.tile(hard[0] + 0.1, (3, 1)))).of_questions[0] == pytest.approx(0)


def test_the_rest_is_no_difference_between_questions():
    # Own: seeds by questions [[0, 1], [1, 0]], residual mean square 4 (.25) / 1 = 1. Other: residual 0.
    # Question means of the difference are .5 - 0 and .5 - .2: variance .02, less 1 / 2: below 0, so 0.
    own, other = np.array([[0.0, 1.0], [1.0, 0.0]]), np.tile([0.0, 0.2], (3, 1))
    found = spread_of_two(sample(own), sample(other))
    assert found.of_questions[0] == 0
    assert found.least[0] == pytest.approx(0.5 * np.sqrt(0.5 / 2))  # half of the residual's standard error


def test_unknown_means_are_left_out_and_a_column_of_nothing_else_has_no_interval():
    low, high = percentile_interval(np.array([[np.nan, 1.0, np.nan], [np.nan, 3.0, 2.0]]), 0.5)
    assert np.isnan([low[0], high[0]]).all()
    assert (low[1], high[1]) == (1.5, 2.5)
    assert (low[2], high[2]) == (2.0, 2.0)


@pytest.mark.slow
def test_intervals_hold_the_truth():
    """Simulated studies with the true mean 0; `benchmarks/coverage.py` has more. A share of 2,000 varies by .005."""
    rng, held, kept = np.random.default_rng(5), [], []
    for batch in map(str, range(10)):
        values = rng.normal(0, 0.02, (200, 5, 1)) + rng.normal(0, 0.4, (200, 1, 300))
        values = values + rng.normal(0, 0.3, (200, 5, 300))
        mean = distribution(values, resampled_seeds(values, batch, 1000), batch, UNLIMITED)
        low, high = intervals(mean, 0.95)
        held.append((low <= 0) & (high >= 0))
        kept.append(p_values(mean) >= 0.05)
    assert 0.93 <= np.mean(held) <= 0.97
    assert abs(np.mean(held) - np.mean(kept)) < 0.002  # p below .05 where the interval leaves out 0
    right = (np.random.default_rng(0).random((2000, 1, 300)) < 0.97).astype(float)
    low, high = intervals(of(right), 0.95)  # of one seed
    assert 0.93 <= ((low <= 0.97) & (high >= 0.97)).mean() <= 0.97


def test_intervals_of_unpaired_arms_hold_the_truth():
    """400 studies of two arms whose seeds and questions differ: at least 93 % (standard error 1.1)."""
    rng = np.random.default_rng(2)
    difficulty = rng.normal(0, 0.2, (400, 1, 60))

    def arm(seeds: int) -> Sample:
        values = difficulty + rng.normal(0, 0.1, (400, seeds, 1)) + rng.normal(0, 0.3, (400, seeds, 60))
        return Sample(values, resampled_seeds(values, "data", 200))

    low, high = intervals(distribution_of_unpaired_difference(arm(2), arm(5), "data", UNLIMITED), 0.95)
    assert np.mean((low <= 0) & (high >= 0)) >= 0.93
