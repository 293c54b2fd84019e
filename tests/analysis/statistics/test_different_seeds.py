"""Two arms with different seeds, against calculations by hand and against independent samples."""

import numpy as np
import pytest
from scipy.stats import t as student

from reward_ablation.analysis.statistics.estimates import (
    Sample,
    distribution_of_unpaired_difference,
    intervals,
    p_values,
    resampled_seeds,
    spread_of_two,
)
from reward_ablation.analysis.statistics.seed_variance import SeedVariance

UNLIMITED = (np.array([-np.inf]), np.array([np.inf]))


def sample(values, variance: SeedVariance | None = None, resamples: int = 4000) -> Sample:
    array = np.asarray(values, dtype=float)[None]
    return Sample(array, resampled_seeds(array, "data", resamples), variance)


def interval(own: Sample, other: Sample, confidence: float = 0.95) -> tuple[float, float]:
    low, high = intervals(distribution_of_unpaired_difference(own, other, "data", UNLIMITED), confidence)
    return float(low[0]), float(high[0])


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


def test_more_seeds_of_the_other_arm_shorten_the_interval():
    rng = np.random.default_rng(0)
    own, other = rng.normal(0, 0.1, (2, 50)), rng.normal(0, 0.1, (8, 50))
    own[1] += 0.3
    other += np.linspace(-0.15, 0.15, 8)[:, None]
    known = SeedVariance(np.array([0.01]), np.array([5.0]))  # the same, so that only the numbers of seeds differ
    low, high = interval(sample(own, known), sample(other, known))
    shorter = high - low
    low, high = interval(sample(own, known), sample(other[[0, -1]], known))
    assert shorter < 0.9 * (high - low)


@pytest.mark.parametrize(("seeds", "others"), [(2, 5), (3, 8)])
def test_intervals_hold_the_truth(seeds, others):
    """400 studies of two arms whose seeds and questions differ: at least 93 % (standard error 1.1)."""
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
