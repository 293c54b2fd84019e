"""Variance between seeds, moderated by the other arms: against hand calculations, and in simulated studies."""

import numpy as np
import pytest
from scipy.stats import t

from reward_ablation.analysis.statistics.limits import COUNT, SHARE
from reward_ablation.analysis.statistics.seed_variance import DOUBTFUL, USUAL_SEED_SD, SeedMeans

ARMS = ["a", "b", "c", "d"]


def lengths(logarithms: np.ndarray, **changed) -> SeedMeans:
    """Means of a length, whose logarithms are (studies, arms, seeds), each study in the place of a metric."""
    studies, arms, seeds = logarithms.shape
    given = {"arms": ARMS[:arms], "seeds": list(range(seeds)), "questions": 200} | changed
    return SeedMeans(values=np.exp(logarithms), limits=[COUNT] * studies, **given)


def small(deviations: np.ndarray) -> SeedMeans:
    """Lengths near 1, where a length and its logarithm have the same variance."""
    return lengths(1e-4 * np.asarray(deviations, dtype=float))


def test_a_difference_borrows_what_the_contrasts_orthogonal_to_it_vary_by():
    # Two seeds, 0 and the deviation. d - a varies by 2 between seeds: 2**2 / 2 = 2. Of b and c, which are orthogonal to
    # it, one contrast is left beside the mean of all arms: (1, -1, -1, 1) / 2 of (0, 1, 3, 2), which is -1: half of 1,
    # and b - c over the root of 2: half of 2. A mean square of .75, twice for a difference.
    means = small([[[0, 0], [0, 1], [0, 3], [0, 2]]])
    found = means.of_contrast({"d": 1.0, "a": -1.0}, [0, 1])
    assert found.degrees[0] == 2
    assert found.variance[0] == pytest.approx((2 + 2 * 0.75) / 2 * 1e-8, rel=1e-3)
    two = small([[[0, 1], [0, 3]]]).of_contrast({"b": 1.0, "a": -1.0}, [0, 1])  # nothing to borrow
    assert (two.degrees[0], two.variance[0]) == (1, pytest.approx(2e-8, rel=1e-3))


def test_where_a_seed_does_the_same_to_all_arms_nothing_is_known_beyond_one_arm():
    means = small(np.tile([[[0.0, 5.0, 1.0]]], (1, 4, 1)))
    found = means.of_contrast({"a": 1.0}, [0, 1, 2])
    assert found.degrees[0] == pytest.approx(2, abs=1e-3)
    assert found.variance[0] == pytest.approx(7e-8, rel=1e-3)  # 0, 5 and 1 about 2: (4 + 9 + 1) / 2


def test_an_arm_without_all_seeds_does_not_lend():
    deviations = np.array([[[0, 1.0], [0, 3.0], [0, 5.0], [0, np.nan]]])
    found = small(deviations).of_contrast({"b": 1.0, "a": -1.0}, [0, 1])
    three = small(deviations[:, :3]).of_contrast({"b": 1.0, "a": -1.0}, [0, 1])
    assert found.degrees[0] == three.degrees[0] == 2
    assert found.variance[0] == pytest.approx(three.variance[0], rel=1e-5)


@pytest.mark.parametrize("twin", [0, 3])
def test_an_arm_under_two_names_counts_once_among_the_others(twin):
    alone = small([[[0, 1, 0], [0, 1, -2], [0, 1.5, 1], [0, 30, -9]], [[0, 0, 0], [0, 1, 2], [0, 1, 1], [3, 0, 1]]])
    values = alone.values[:, [0, 1, 2, 3, twin, twin]]
    twins = SeedMeans([*ARMS, "again", "thrice"], alone.seeds, values, alone.limits, alone.questions)
    assert alone.flagged.tolist() == [[False, False, False, True], [False, False, False, False]]
    assert twins.flagged[:, :4].tolist() == alone.flagged.tolist()
    np.testing.assert_array_equal(twins.flagged[:, 4:], alone.flagged[:, [twin, twin]])
    np.testing.assert_allclose(twins.p_unlike, alone.p_unlike[:, [0, 1, 2, 3, twin, twin]])
    # a is equal in all seeds of the second metric: its variance is the mean of all arms
    for contrast in ({"a": 1.0}, {"d": 1.0}, {"b": 1.0, "a": -1.0}):
        of_twins, of_alone = (each.of_contrast(contrast, [0, 1, 2]) for each in (twins, alone))
        np.testing.assert_allclose([*of_twins], [*of_alone])
    assert (small([[[0, 1, 3], [0, 1, 3]]]).p_unlike == 1).all()  # nothing to be compared with


def test_an_arm_that_differs_much_more_is_flagged_and_neither_lends_nor_borrows():
    means = small([[[0, 1], [0, -2], [0, 1.5], [0, 300]]])
    assert means.flagged.tolist() == [[False, False, False, True]]
    assert means.flagged_in({"d": 1.0, "a": -1.0}).tolist() == ["d"]
    assert means.flagged_in({"b": 1.0, "a": -1.0}).tolist() == [None]
    own = means.of_contrast({"d": 1.0}, [0, 1])
    assert own.degrees[0] == 1
    others = small([[[0, 1], [0, -2], [0, 1.5]]]).of_contrast({"b": 1.0, "a": -1.0}, [0, 1])
    assert means.of_contrast({"b": 1.0, "a": -1.0}, [0, 1]).variance[0] == pytest.approx(others.variance[0])


def test_shares_are_compared_where_their_variances_do_not_depend_on_their_size():
    # Seeds of one spread on the arcsine scale: near 0 and near .5 the same there, and very different as shares.
    angles = np.array([0.2, 0.8, 0.8, 0.2])[:, None] + np.array([[-0.01, 0.01]])
    means = SeedMeans(ARMS, [0, 1], np.sin(angles)[None] ** 2, [SHARE], 10**6)
    np.testing.assert_allclose(means.centred[0], np.tile([-0.01, 0.01], (4, 1)), rtol=1e-6)
    np.testing.assert_allclose(means.slope[0], np.sin(2 * angles.mean(axis=1)), rtol=2e-3)


def test_flags_are_as_rare_as_said_where_arms_are_alike():
    studies = np.random.default_rng(1).normal(0, 0.1, (4000, 4, 3))
    assert 0.03 < lengths(studies).flagged.any(axis=1).mean() < 0.07
    found = lengths(studies[:, :, :2]).of_contrast({"b": 1.0, "a": -1.0}, [0, 1])
    assert 1 - 3 * DOUBTFUL < (found.degrees > 1).mean() < 1  # few false doubts keep most contrasts moderated


@pytest.mark.parametrize(
    ("seeds", "correlation", "contrast"),
    [(2, 0.7, {"a": 1.0}), (2, 0.0, {"b": 1.0, "a": -1.0}), (3, 0.7, {"b": 1.0, "a": -1.0})],
)
def test_intervals_hold_the_truth_where_arms_are_alike(seeds, correlation, contrast):
    rng = np.random.default_rng([seeds, round(10 * correlation)])
    common, own = rng.normal(size=(4000, 1, seeds)), rng.normal(size=(4000, 4, seeds))
    deviations = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    found = small(deviations).of_contrast(contrast, list(range(seeds)))
    coefficients = np.array([contrast.get(arm, 0.0) for arm in ARMS])
    means = 1e-4 * np.einsum("a,mas->ms", coefficients, deviations).mean(axis=1)
    held = np.abs(means) <= t.ppf(0.975, found.degrees) * np.sqrt(found.variance / seeds)
    assert 0.94 < held.mean() < 0.99
    assert (found.degrees <= seeds - 1 + min(seeds - 1, 2)).all()  # two borrowed degrees of freedom at most


def test_equal_seeds_are_not_taken_for_no_variance():
    # a and b have equal seeds, c and d vary by .25 ** 2 / 2 and by nothing.
    values = np.array([[[1.0, 1.0], [0.75, 0.75], [0.75, 1.0], [1.0, 1.0]]])
    means = SeedMeans(ARMS, [0, 1], values, [SHARE], 200)
    found = means.of_contrast({"b": 1.0, "a": -1.0}, [0, 1])
    assert found.variance[0] == pytest.approx(2 * (0.25**2 / 2) / 4)
    alike = SeedMeans(ARMS, [0, 1], np.ones((1, 4, 2)), [SHARE], 200)
    assert alike.of_contrast({"a": 1.0}, [0, 1]).variance[0] == pytest.approx(USUAL_SEED_SD**2)


@pytest.mark.parametrize("lends", [True, False])
def test_an_arm_whose_counts_are_all_0_has_a_variance(lends):
    means = SeedMeans(ARMS[:3], [0, 1], np.array([[[0.0, 0.0], [1.0, 2.0], [2.0, 3.0]]]), [COUNT], 200, lends)
    # The mean variance of the three arms is assumed; nothing without arms that lend.
    assert means.of_contrast({"a": 1.0}, [0, 1]).variance[0] == pytest.approx(1 / 3 if lends else 0.0)


def test_seeds_that_agree_by_chance_give_no_tiny_p_value():
    """Each seed switches on, with probability 1/2, what decides a quarter of the questions, in all arms alike."""
    values = 1 - 0.25 * (np.random.default_rng(2).random((2000, 4, 2)) < 0.5)
    means = SeedMeans(ARMS, [0, 1], values, [SHARE] * 2000, 200)
    p = []
    for arm, name in enumerate("bcd", start=1):
        found = means.of_contrast({name: 1.0, "a": -1.0}, means.seeds)
        estimate = (values[:, arm] - values[:, 0]).mean(axis=1)
        p.append(2 * t.sf(np.abs(estimate) / np.sqrt(found.variance / 2), found.degrees))
    assert np.mean(np.array(p) < 0.001) <= 0.005
    assert np.mean(np.array(p) >= 0.05) >= 0.94


def test_pooled_is_the_residual_of_arms_by_seeds():
    values = np.random.default_rng(5).normal(0, 1, (1, 4, 3))
    found = small(values).of_contrast({"b": 1.0, "a": -1.0}, [0, 1, 2], pooled=True)
    residual = values[0] - values[0].mean(axis=0) - values[0].mean(axis=1, keepdims=True) + values[0].mean()
    assert found.degrees[0] == pytest.approx(3 * 2)
    assert found.variance[0] == pytest.approx(1e-8 * 2 * (residual**2).sum() / 6)
