"""The Gaussian process over shares of weights, against formulas of multivariate normal distributions."""

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal, norm

from reward_ablation.analysis.statistics.limits import COUNT, SHARE, UNLIMITED, Limits
from reward_ablation.design.surface import model
from reward_ablation.design.surface.model import (
    AMPLITUDES,
    LENGTHS,
    MANY_ARMS,
    MeasuredArms,
    Prediction,
    Scale,
    Surface,
)

from .surfaces import FIFTEEN, hill, measured, plain

PLACES, VALUES, SPREAD = [0.0, 0.2, 0.5, 0.7, 1.0], [1.0, 2.5, 2.0, 4.0, 3.0], 0.4


def covariance(one: np.ndarray, other: np.ndarray, length: float, amplitude: float) -> np.ndarray:
    """Squared exponential; two shares that differ by d lie d times the root of 2 apart."""
    squared = 2 * np.square(one[:, None] - other[None])
    return amplitude**2 * np.exp(-squared / (2 * length**2))


@pytest.fixture
def one_model(monkeypatch):
    """A grid of one length scale, 0.5, and one amplitude, 1.5 in units of the arms' spread."""
    monkeypatch.setattr(model, "LENGTHS", np.array([0.5]))
    monkeypatch.setattr(model, "AMPLITUDES", np.array([1.5]))
    return 0.5, 1.5 * np.std(VALUES)


def test_a_prediction_is_the_normal_distribution_given_the_arms(one_model):
    arms, new = np.array(PLACES), np.array([0.1, 0.6])
    both = np.concatenate([arms, new])
    # An unknown mean is a mean with a very wide prior.
    joint = covariance(both, both, *one_model) + 1e5
    joint[range(5), range(5)] += SPREAD**2
    gain = joint[5:, :5] @ np.linalg.inv(joint[:5, :5])
    found = Surface(plain(VALUES, PLACES, SPREAD)).predict(np.column_stack([new, 1 - new]))
    np.testing.assert_allclose(found.mean, gain @ VALUES, atol=1e-3)
    np.testing.assert_allclose(found.variance, np.diag(joint[5:, 5:] - gain @ joint[:5, 5:]), atol=1e-3)


def test_models_of_the_grid_weigh_by_the_likelihood_of_the_contrasts_of_arms(monkeypatch):
    monkeypatch.setattr(model, "LENGTHS", np.array([0.2, 1.0]))
    monkeypatch.setattr(model, "AMPLITUDES", np.array([1.0]))
    places, contrasts = np.array(PLACES), null_space(np.ones((1, 5)))
    likelihoods = [
        multivariate_normal.pdf(
            VALUES @ contrasts,
            cov=contrasts.T @ (covariance(places, places, length, np.std(VALUES)) + SPREAD**2 * np.eye(5)) @ contrasts,
        )
        for length in (0.2, 1.0)
    ]
    found = Surface(plain(VALUES, PLACES, SPREAD)).weights
    np.testing.assert_allclose(found, np.array(likelihoods) / sum(likelihoods), rtol=1e-6)


def test_equal_arms_make_a_flat_surface_that_is_known_as_their_mean_is():
    arms = measured(np.full(15, 0.6), FIFTEEN, spread=0.03)
    found = Surface(arms).predict(np.array([[0.1, 0.3, 0.6]]))
    assert found.estimate == pytest.approx(0.6, abs=2e-3)
    low, high = found.interval(0.95)
    # The mean of 30 seeds has a standard error of 0.03 * 2 * (0.6 * 0.4)**0.5 / 30**0.5 = 0.0054.
    assert 2 * 1.96 * 0.0054 < high - low < 0.08


def test_a_hill_between_the_arms_is_found():
    points = np.array([[0.55, 0.3, 0.15], [0.0, 0.1, 0.9]])
    found = Surface(measured(hill(FIFTEEN), FIFTEEN, spread=0.01)).predict(points)
    np.testing.assert_allclose(found.estimate, hill(points), atol=0.02)
    assert hill(points)[0] > hill(FIFTEEN).max() + 0.01


def test_an_arm_that_is_not_trained_yet_has_the_noise_of_its_seeds_too():
    surface = Surface(measured(hill(FIFTEEN), FIFTEEN, spread=0.05))
    expected = surface.predict(np.array([[0.5, 0.25, 0.25]]))
    two, many = (expected.of_new_arms(0.05, seeds).variance - expected.variance for seeds in (2, 20))
    # On the logit scale a seed varies by 0.05 * 2 / (p (1 - p))**0.5.
    p = expected.estimate
    np.testing.assert_allclose(two, (0.05 * 2) ** 2 / (p * (1 - p)) / 2, rtol=0.02)
    np.testing.assert_allclose(two, 10 * many)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_expected_improvement_has_its_closed_form_on_a_metric_without_limits(higher_is_better):
    mean, deviation, best = 1.0, 0.5, 1.2
    found = Prediction(np.array([mean]), np.array([deviation**2]), 9, Scale(UNLIMITED, 100))
    gain = mean - best if higher_is_better else best - mean
    expected = gain * norm.cdf(gain / deviation) + deviation * norm.pdf(gain / deviation)
    assert found.improvement(best, higher_is_better)[0] == pytest.approx(expected, abs=2e-3)


def test_means_at_a_limit_are_half_an_answer_inside():
    scale = Scale(Limits(-1.0, 1.0), 99)
    values = np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(scale.forward(values), [-np.log(199), 0, np.log(199)])
    np.testing.assert_allclose(scale.back(scale.forward(values)), [-0.99, 0, 0.99])
    np.testing.assert_allclose(scale.slope(np.array([0.0])), 2.0)


@pytest.mark.parametrize(("limits", "expected"), [(UNLIMITED, 0.3), (COUNT, 0.3 * 50), (SHARE, 0.3 * 2 * 0.5 / 0.25)])
def test_the_spread_of_seeds_comes_from_the_scale_on_which_seeds_are_compared(limits, expected):
    at = np.array([0.5 if limits == SHARE else 50.0])
    np.testing.assert_allclose(Scale(limits, 10**6).seed_variance(at, 0.3), expected**2, rtol=1e-5)


def test_an_arm_that_is_left_out_by_the_inverse_is_as_after_another_fit():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), MANY_ARMS + 20)
    means = 0.4 + 0.3 * shares[:, 0] - 0.2 * shares[:, 1] * shares[:, 2] + rng.normal(0, 0.01, len(shares))
    names, seeds, spreads = [f"arm{n}" for n in range(len(shares))], np.full(len(shares), 5), np.full(len(shares), 0.02)
    arms = MeasuredArms(names, shares, means, seeds, spreads, 0.02, Scale(SHARE, 1000))
    surface = Surface(arms)
    assert len(surface.weights) < len(LENGTHS) * len(AMPLITUDES)  # hardly likely models are left out
    found = surface.left_out()
    for arm in (0, 50, 119):
        fitted = Surface(arms.without(arm)).predict(shares[[arm]])
        assert found.estimate[arm] == pytest.approx(fitted.estimate[0], rel=1e-4)
        assert found.variance[arm] == pytest.approx(fitted.variance[0], rel=0.01)
    assert found.degrees == fitted.degrees
