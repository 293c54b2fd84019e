"""Shares of resampled units, random numbers by label, and percentile intervals."""

import numpy as np

from reward_ablation.analysis.statistics.intervals import generator, percentile_interval, resampling_shares


def test_shares_of_a_resample_add_up_to_one():
    shares = resampling_shares(50, 7, generator("shares"))
    assert shares.shape == (50, 7)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert set(np.round(shares * 7).ravel()) <= set(range(8))


def test_random_numbers_come_from_the_labels_alone():
    first, again = (generator("arm", "gsm8k").random(3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert generator("arm", "gsm8k").random() != generator("armg", "sm8k").random()


def test_unknown_means_are_left_out_and_a_column_of_nothing_else_has_no_interval():
    low, high = percentile_interval(np.array([[np.nan, 1.0, np.nan], [np.nan, 3.0, 2.0]]), 0.5)
    assert np.isnan([low[0], high[0]]).all()
    assert (low[1], high[1]) == (1.5, 2.5)
    assert (low[2], high[2]) == (2.0, 2.0)
