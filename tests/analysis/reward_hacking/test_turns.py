import numpy as np
import pytest

from reward_ablation.analysis.reward_hacking.turns import (
    contrast,
    last_fall,
    rise_between,
    segment_points,
    segments_of,
)


def test_segments_are_eight_or_have_two_steps():
    assert [len(places) for places in segments_of(40)] == [5] * 8
    assert [len(places) for places in segments_of(7)] == [3, 2, 2]
    assert [len(places) for places in segments_of(1)] == [1]


def test_a_trend_is_not_noise():
    means, errors = segment_points(np.arange(16.0)[None])
    assert list(means[0]) == [0.5, 2.5, 4.5, 6.5, 8.5, 10.5, 12.5, 14.5]
    # neighbours differ by 1: half of 1, over two steps
    assert errors[0] == pytest.approx((0.5 / 2) ** 0.5)


def test_the_noise_of_independent_steps_is_found():
    values = np.random.default_rng(0).normal(0, 0.1, (2, 400))
    _, errors = segment_points(values)
    assert errors == pytest.approx(0.1 / 50**0.5, rel=0.1)


def test_the_error_of_a_difference_is_the_larger_of_noise_and_spread():
    errors = np.full((2, 2), 0.03)
    # differences .2 and .2: no spread; two seeds of two points each with .03
    assert contrast(np.array([[0.5, 0.3], [0.4, 0.2]]), errors, 0, 1) == pytest.approx((0.2, (4 * 0.03**2) ** 0.5 / 2))
    # differences .4 and 0: standard deviation .2 * sqrt(2), over sqrt(2)
    assert contrast(np.array([[0.5, 0.1], [0.4, 0.4]]), errors, 0, 1) == pytest.approx((0.2, 0.2))


def test_a_fall_by_hand():
    means, errors = np.array([[0.3, 0.5, 0.4]]), np.full((1, 3), 0.02)
    turn = last_fall(means, errors, 0.05)
    assert (turn.place, turn.before, turn.after) == (1, 0.5, 0.4)
    # two comparisons: the normal's upper .025 is 1.96, the error .02 * sqrt(2)
    assert turn.low == pytest.approx(0.1 - 1.959964 * 0.02 * 2**0.5)
    assert turn.beyond_noise
    assert not last_fall(means, 2 * errors, 0.05).beyond_noise
    rise = rise_between(means, errors, 0, 0.05)
    assert (rise.fall, rise.low) == pytest.approx((0.1, 0.1 - 1.644854 * 0.02 * 2**0.5))


def test_points_that_are_not_known_are_passed_over():
    means = np.array([[np.nan, 0.5, 0.4]])
    assert last_fall(means, np.full((1, 3), 0.01), 0.05).place == 1
    assert last_fall(np.array([[np.nan, 0.5]]), np.full((1, 2), 0.01), 0.05) is None


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_noise_raises_no_alarm_more_often_than_asked(seeds):
    """600 arms whose accuracy stays at .4, as 64 completions a step say: at 5 %, at most 8 % are alarms."""
    rng = np.random.default_rng(seeds)
    values = rng.binomial(64, 0.4, (600, seeds, 40)) / 64
    alarms = [last_fall(*segment_points(arm), 0.05).beyond_noise for arm in values]
    assert np.mean(alarms) < 0.08


def test_a_turn_is_found():
    """Accuracy rises to .5 in the middle of training and falls to .3, with a step's noise of .06."""
    rng = np.random.default_rng(0)
    course = 0.5 - 0.2 * np.abs(np.linspace(-1, 1, 40))
    turns = [last_fall(*segment_points(course + rng.normal(0, 0.06, (2, 40))), 0.05) for _ in range(200)]
    assert np.mean([turn.beyond_noise for turn in turns]) > 0.9
    assert {turn.place for turn in turns if turn.beyond_noise} <= {2, 3, 4, 5}
