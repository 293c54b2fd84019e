import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from reward_ablation.analysis.statistics.across import (
    distribution_of_iqm,
    interquartile_mean,
    probability_of_improvement,
    redrawn,
)
from reward_ablation.analysis.statistics.estimates import intervals, resampled_seeds


def test_interquartile_mean_leaves_out_a_quarter_at_each_end():
    # Eight scores of four seeds on two data sets: without 0, 1 and 8, 90 the mean of 2, 3, 4, 7.
    scores = np.array([[90.0, 0.0], [1.0, 2.0], [3.0, 4.0], [7.0, 8.0]])
    assert interquartile_mean(scores) == pytest.approx(4)


def test_fewer_than_four_scores_are_all_in_their_mean():
    assert interquartile_mean(np.array([[1.0], [2.0], [9.0]])) == pytest.approx(4)


def test_probability_of_improvement_counts_pairs():
    # First data set: 3 beats 1 and 2, 1 ties with 1 and loses to 2: 2.5 of 4. Second: all four pairs are won.
    scores, baseline = np.array([[3.0, 10.0], [1.0, 11.0]]), np.array([[1.0, 0.0], [2.0, 5.0]])
    assert probability_of_improvement(scores, baseline) == pytest.approx((2.5 / 4 + 1) / 2)


def test_probability_of_improvement_is_mann_and_whitneys_u_over_the_pairs():
    scores, baseline = np.random.default_rng(0).integers(0, 5, (2, 7, 1)).astype(float)
    expected = mannwhitneyu(scores[:, 0], baseline[:, 0]).statistic / 49
    assert probability_of_improvement(scores, baseline) == pytest.approx(expected)


def test_both_take_many_resamples_at_once():
    scores = np.random.default_rng(1).random((6, 2, 5, 3))
    assert interquartile_mean(scores)[4, 1] == pytest.approx(interquartile_mean(scores[4, 1]))
    improvement = probability_of_improvement(scores, scores[::-1])
    assert improvement[4, 1] == pytest.approx(probability_of_improvement(scores[4, 1], scores[1, 1]))


def test_a_resample_has_the_same_seeds_on_all_data_sets():
    by_seed = np.broadcast_to(np.arange(4.0)[:, None], (500, 2, 4, 3))
    drawn = redrawn(by_seed, np.random.default_rng(2))
    assert (drawn == drawn[..., :1]).all()  # data sets
    assert (drawn == drawn[:, :1]).all()  # metrics
    assert drawn.mean() == pytest.approx(1.5, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("datasets", [pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.parametrize(
    "seeds", [pytest.param(3, marks=pytest.mark.long), 5, pytest.param(10, marks=pytest.mark.long)]
)
def test_intervals_of_the_interquartile_mean_hold_the_truth(seeds, datasets):
    # 1,000 studies; all data sets have one true level, 0, so that it is the interquartile mean, too.
    rng = np.random.default_rng([seeds, datasets])
    level = rng.normal(0, 0.02, (1000, seeds, 1))
    values = [
        level + rng.normal(0, 0.4, (1000, 1, 200)) + rng.normal(0, 0.2, (1000, seeds, 200)) for _ in range(datasets)
    ]
    by_seed = [resampled_seeds(of, str(place), 1000) for place, of in enumerate(values)]
    limits = (np.full(1000, -np.inf), np.full(1000, np.inf))
    resampled = redrawn(np.stack(by_seed, axis=-1), np.random.default_rng(3))
    low, high = intervals(distribution_of_iqm(values, resampled, limits), 0.95)
    assert 0.92 <= ((low <= 0) & (high >= 0)).mean() <= 0.98
