"""Means over seeds and questions, paired and unpaired: intervals and tests against numbers by hand."""

import tracemalloc
from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    Sample,
    Spread,
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


def test_questions_that_differ_less_than_chance_add_nothing():
    # Question means are equal: the variance is that between seeds, 9 questions times variance .02 over 18.
    seeds = np.array([-0.1, 0.1])[:, None]
    noise = 0.3 * np.tile([1.0, -1.0, 0.0], 3) * np.array([1.0, -1.0])[:, None]
    found = spread((seeds + noise)[None])
    assert found.of_seeds[0] == pytest.approx(sqrt(9 * 0.02 / 18))
    assert found.of_questions[0] == 0


def test_seeds_that_agree_by_chance_leave_half_of_what_questions_tell():
    found = spread(np.array([[[1.0, 0.0] * 50, [0.0, 1.0] * 50]]))  # both seeds .5, all questions .5
    assert found.of_seeds[0] == found.of_questions[0] == 0
    assert found.least[0] == pytest.approx(0.5 * sqrt(50 / 99 / 200))  # residual sum of squares 50, of 99 degrees


def test_an_interval_of_many_questions_is_that_of_student():
    values = np.random.default_rng(0).normal(0.5, 0.1, (1, 400))
    low, high = one(values, low=-np.inf, high=np.inf)
    expected = ttest_1samp(values[0], 0).confidence_interval(0.95)
    assert (low, high) == pytest.approx(tuple(expected), abs=0.05 * (high - low))


def test_an_interval_over_seeds_that_differ_is_that_of_their_means():
    levels = np.array([0.1, 0.3, 0.2, 0.5])
    low, high = one(np.repeat(levels[:, None], 300, axis=1), low=-np.inf, high=np.inf)
    expected = ttest_1samp(levels, 0).confidence_interval(0.95)
    assert high - low == pytest.approx(expected.high - expected.low, rel=0.1)  # four seeds' means are few to draw from


@pytest.mark.parametrize(("right", "expected"), [(4, (0.0055, 0.0504)), (196, (0.9496, 0.9945))])  # Clopper, Pearson
def test_a_rare_answer_has_an_interval_that_leans_to_the_middle(right, expected):
    low, high = one((np.arange(200) < right)[None].astype(float))
    assert (low, high) == pytest.approx(expected, abs=0.004)
    near, far = sorted([abs(low - right / 200), abs(high - right / 200)])
    assert far > 1.5 * near


@pytest.mark.parametrize(("value", "low", "high"), [(0.0, 0.0, 0.0362), (1.0, 0.9638, 1.0)])
def test_equal_values_have_clopper_and_pearsons_interval_over_questions(value, low, high):
    assert one(np.full((3, 100), value)) == pytest.approx((low, high), abs=1e-4)  # 1 - .025 ** (1 / 100)


def test_no_difference_at_all_leaves_as_much_doubt_to_each_side():
    low, high = one(np.zeros((3, 100)), low=-1.0)
    assert (low, high) == pytest.approx((-0.0362, 0.0362), abs=1e-4)


def test_rounding_of_equal_values_is_no_spread():
    values = np.full((3, 100), 0.3)
    values[1] += 1e-16
    assert spread(values[None]).least[0] == 0


def test_intervals_stay_within_the_range_of_their_metric():
    values = np.zeros((2, 30))
    values[:, 0] = 1
    low, high = one(values)
    assert 0 <= low < 1 / 30 < high <= 1


@pytest.mark.parametrize(("seeds", "shift"), [(1, 0.1), (3, -0.1)])
def test_p_is_where_an_interval_just_holds_zero(seeds, shift):
    rng = np.random.default_rng([seeds, 4])
    values = shift + rng.normal(0, 0.5, (seeds, 60)) + rng.normal(0, 0.03, (seeds, 1))
    found = of(values[None], low=-np.inf, high=np.inf)
    p = float(p_values(found)[0])
    wide, narrow = intervals(found, 1 - 0.99 * p), intervals(found, 1 - 1.01 * p)
    assert wide[0][0] < 0 < wide[1][0]
    assert not narrow[0][0] <= 0 <= narrow[1][0]


def test_p_goes_below_what_resamples_can_count():
    values = np.random.default_rng(6).normal(1, 1, (1, 300))
    assert 0 < p_values(of(values[None], low=-np.inf, high=np.inf, resamples=200))[0] < 1e-6


def test_p_of_no_difference_is_one():
    values = np.stack([np.zeros((2, 50)), np.tile([0.5, -0.5], (2, 25))])
    assert p_values(of(values, low=-1)).tolist() == [1.0, 1.0]


def test_equivalence_is_that_of_two_one_sided_t_tests():
    values = np.random.default_rng(7).normal(0.05, 1, (3, 1, 400)) + np.array([0.0, 0.1, -0.2])[:, None, None]
    found = p_equivalent(of(values, low=-np.inf, high=np.inf), 0.15)
    expected = [DescrStatsW(row).ttost_mean(-0.15, 0.15)[0] for row in values[:, 0]]
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.01)


def test_equal_values_are_equivalent_where_their_interval_is_inside_the_margin():
    nothing = of(np.zeros((1, 2, 200)), low=-1.0)  # 0 on 200 questions: an interval of 1.8 points to both sides
    assert p_equivalent(nothing, 0.0183)[0] == pytest.approx(0.025, abs=0.001)
    assert p_equivalent(nothing, 0.01)[0] > 0.1


def test_a_variance_between_seeds_that_is_given_takes_the_place_of_the_own():
    values = np.array([[[0.4] * 50 + [0.2] * 50, [0.6] * 50 + [0.4] * 50]])
    given = SeedVariance(np.array([0.08]), np.array([2.0]))
    by_seed = resampled_seeds(values, "data", 500)
    found = distribution(values, by_seed, "data", (np.zeros(1), np.ones(1)), given)
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


def test_memory_stays_bounded_for_twelve_thousand_questions():
    values = np.random.default_rng(11).random((5, 5, 12_000))
    tracemalloc.start()
    resampled_seeds(values, "memory", 500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 500 * 12_000 + 100e6  # the shares, kept, and what it takes to draw them


def test_margins_of_seeds_and_questions_add_up_by_squares():
    # 3 and 4 standard errors, with the degrees of freedom as factors: 2 seeds 1, 5 questions 4.
    found = Distribution(
        np.zeros(1),
        Spread(np.array([3.0]), np.array([4.0]), np.array([1.0]), np.array([4.0]), np.array([1.0]), np.zeros(1)),
        *(np.zeros((9, 1)), np.zeros(1), np.zeros(1), 2, 5),
    )
    assert found.margin(lambda degrees: degrees)[0] == pytest.approx(sqrt(3**2 + 16**2))
    assert found._replace(spread=found.spread._replace(least=np.array([5.0]))).margin(lambda degrees: degrees)[0] == 20


@pytest.mark.parametrize("seeds", [2, 5])
def test_p_values_of_nothing_are_seldom_small(seeds):
    """Two arms that do not differ but for their seeds: p below .01 in about one study of a hundred."""
    rng = np.random.default_rng([seeds, 14])
    studies = rng.normal(0, 1, (1500, seeds, 100)) + rng.normal(0, 0.1, (1500, seeds, 1))
    p = p_values(of(studies, low=-np.inf, high=np.inf, resamples=500))
    assert (p < 0.01).mean() <= 0.02
    assert (p < 0.001).mean() <= 0.005


def test_equal_differences_without_a_range_are_compared_with_none_at_all():
    found = of(np.full((1, 1, 5), -3.0), low=-np.inf, high=np.inf)
    none_of_five = 1 - 0.025 ** (1 / 5)  # Clopper and Pearson
    assert [end[0] for end in intervals(found, 0.95)] == pytest.approx([-3 - 3 * none_of_five, -3 + 3 * none_of_five])
    assert 0.001 < p_values(found)[0] < 0.05


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
    values = np.array([[[0.0, 1.0, 2.0]], [[3.0, 1.0, 1.0]]])
    by_level = np.repeat(np.array([[1.0], [2.0]]), 3, axis=1)[None]  # seeds differ, questions do not
    for differences in (values, by_level):
        limits = (np.full(len(differences), -np.inf), np.full(len(differences), np.inf))
        by_seed = resampled_seeds(differences, "data", 200)
        plain, scaled = (distribution(differences, by_seed, "data", limits, scale=scale) for scale in (0.0, 99.0))
        assert [part.tolist() for part in plain.spread] == [part.tolist() for part in scaled.spread]


def sample(values, variance: SeedVariance | None = None, resamples: int = 4000) -> Sample:
    array = np.asarray(values, dtype=float)[None]
    return Sample(array, resampled_seeds(array, "data", resamples), variance)


def by_seed(means, questions=2):
    """Question means of seeds whose questions do not differ."""
    return np.repeat(np.array(means, dtype=float)[:, None], questions, axis=1)


def test_margins_of_seeds_add_up_by_their_squares():
    own, other = [0.5, 0.7], [0.1, 0.4, 0.4, 0.5]
    errors = [np.std(means, ddof=1) / np.sqrt(len(means)) for means in (own, other)]
    margin = np.hypot(student.ppf(0.975, 1) * errors[0], student.ppf(0.975, 3) * errors[1])
    samples = [sample(by_seed(means, questions=1000)) for means in (own, other)]
    of = distribution_of_unpaired_difference(*samples, "data", UNLIMITED)
    assert of.estimate[0] == pytest.approx(0.6 - 0.35)
    assert of.margin(lambda degrees: student.ppf(0.975, degrees))[0] == pytest.approx(margin, rel=1e-4)


def test_each_arm_has_its_own_moderated_variance():
    moderated = SeedVariance(np.array([0.04]), np.array([2.0]))
    own, other = sample(by_seed([0.5, 0.7]), moderated), sample(by_seed([0.1, 0.4, 0.4, 0.5]))
    found = spread_of_two(own, other)
    assert found.of_seeds[:, 0] == pytest.approx([np.sqrt(0.04 / 2), np.std([0.1, 0.4, 0.4, 0.5], ddof=1) / 2])
    assert found.degrees[:, 0].tolist() == [2, 3]


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


def test_values_that_are_all_equal_give_the_interval_of_no_difference():
    limits = (np.array([-1.0]), np.array([1.0]))
    of = distribution_of_unpaired_difference(
        sample(np.full((2, 10), 0.3)), sample(np.full((3, 10), 0.3)), "data", limits
    )
    low, high = intervals(of, 0.95)
    none_of_ten = 1 - 0.025 ** (1 / 10)  # Clopper and Pearson
    assert (low[0], high[0]) == pytest.approx((-none_of_ten, none_of_ten))
    assert p_values(of)[0] == pytest.approx(1)


def test_intervals_hold_the_truth():
    """400 studies of two arms whose seeds and questions differ: at least 93 % (standard error 1.1)."""
    seeds, others = 2, 5
    rng = np.random.default_rng(seeds)
    studies, questions = 400, 60
    difficulty = rng.normal(0, 0.2, (studies, 1, questions))

    def arm(count: int) -> Sample:
        level, rest = rng.normal(0, 0.1, (studies, count, 1)), rng.normal(0, 0.3, (studies, count, questions))
        values = difficulty + level + rest
        return Sample(values, resampled_seeds(values, "data", 200))

    limits = (np.full(studies, -np.inf), np.full(studies, np.inf))
    low, high = intervals(distribution_of_unpaired_difference(arm(seeds), arm(others), "data", limits), 0.95)
    assert np.mean((low <= 0) & (high >= 0)) >= 0.93


def test_random_numbers_come_from_the_labels_alone():
    first, again = (generator("arm", "gsm8k").random(3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert generator("arm", "gsm8k").random() != generator("armg", "sm8k").random()


def test_unknown_means_are_left_out_and_a_column_of_nothing_else_has_no_interval():
    low, high = percentile_interval(np.array([[np.nan, 1.0, np.nan], [np.nan, 3.0, 2.0]]), 0.5)
    assert np.isnan([low[0], high[0]]).all()
    assert (low[1], high[1]) == (1.5, 2.5)
    assert (low[2], high[2]) == (2.0, 2.0)


def test_without_ends_of_an_interval_nothing_is_tested():
    mean = of(np.random.default_rng(0).random((2, 3, 20)))
    unknown = mean.deviations.copy()
    unknown[:, 0] = np.nan
    mean = mean._replace(deviations=unknown)
    for p in (p_values(mean), p_values(mean, 0.9), p_equivalent(mean, 0.1)):
        assert np.isnan(p).tolist() == [True, False]
