"""A Gaussian process of a metric over the shares of the weights, with the noise of the seeds as known error.

The metric of an arm is a smooth function of the arm's shares, plus the noise of the arm's seeds. The function has an
unknown mean and a squared exponential covariance (Rasmussen and Williams, "Gaussian Processes for Machine Learning",
2006, chapter 2). Ten arms do not show how smooth the function is. So no length scale is chosen: predictions are
averaged over a grid of length scales and amplitudes, weighted by their restricted likelihood. A metric with two limits
is modelled by its logit, so that no prediction leaves the limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logit, ndtri, stdtrit

from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.statistics.seed_variance import slope_at

#: Length scales in units of shares; an edge of the simplex has length 1.4.
LENGTHS = np.geomspace(0.15, 2.5, 10)

#: Amplitudes in units of the arms' spread. With the smallest, the weights hardly change the metric.
AMPLITUDES = np.geomspace(0.05, 5, 12)

#: Least standard error of an arm on the scale of the model: seeds that agree by chance must not fix the surface.
LEAST_ERROR = 1e-3

#: With more arms than this, the surface is fitted once, and not again without each arm. The fit then only uses models
#: of the grid whose likelihood is at least this share of the largest likelihood.
MANY_ARMS, LEAST_LIKELY = 100, 1e-4

#: Normal quantiles over which the expected improvement is averaged.
QUANTILES = ndtri((np.arange(200) + 0.5) / 200)


@dataclass(frozen=True)
class Scale:
    """The scale of the model: the logit of a metric with two limits, else the metric itself.

    A mean over `questions` questions that is at a limit is moved half an answer inside, so that its logit is finite.
    """

    limits: Limits
    questions: int

    @property
    def width(self) -> float:
        """Distance between the limits."""
        return self.limits.high - self.limits.low

    def inside(self, values: np.ndarray) -> np.ndarray:
        """Values of the metric as shares of its range, in (0, 1)."""
        shares = np.clip((values - self.limits.low) / self.width, 0.0, 1.0)
        return np.asarray((self.questions * shares + 0.5) / (self.questions + 1))

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Values of the metric on the scale of the model."""
        return np.asarray(logit(self.inside(values))) if self.limits.finite else values

    def back(self, values: np.ndarray) -> np.ndarray:
        """Values on the scale of the model in units of the metric."""
        return np.asarray(self.limits.low + self.width * expit(values)) if self.limits.finite else values

    def slope(self, values: np.ndarray) -> np.ndarray:
        """Units of the model's scale per unit of the metric, at values of the metric."""
        inside = self.inside(values) if self.limits.finite else values
        return 1 / (inside * (1 - inside) * self.width) if self.limits.finite else np.ones_like(values)

    def seed_variance(self, means: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
        """Variance of one seed on the scale of the model, at means of the metric.

        `spread` is the standard deviation on the scale on which seeds are compared (`statistics.seed_variance`).
        """
        in_metric = spread * slope_at(self.limits, means, self.questions)
        return np.asarray((in_metric * self.slope(means)) ** 2)


@dataclass(frozen=True)
class MeasuredArms:
    """Measured metric of the arms of a study.

    Attributes
    ----------
    names : list of str
        Names of the arms.
    shares : (arms, components) array
        Shares of the weights: at least 0, with sum 1.
    means : (arms,) array
        Means over seeds and questions, in units of the metric.
    seeds : (arms,) array
        Number of seeds of each arm.
    spreads : (arms,) array
        Standard deviation between seeds of each arm, on the scale on which seeds are compared.
    spread : float
        Standard deviation between seeds of an arm that is not trained yet, on the same scale.
    scale : Scale
        Scale of the model.
    """

    names: list[str]
    shares: np.ndarray
    means: np.ndarray
    seeds: np.ndarray
    spreads: np.ndarray
    spread: float
    scale: Scale

    @cached_property
    def values(self) -> np.ndarray:
        """(arms,) array: the means on the scale of the model."""
        return self.scale.forward(self.means)

    @cached_property
    def variances(self) -> np.ndarray:
        """(arms,) array: squared standard errors of `values` from the choice of seeds."""
        of_means = self.scale.seed_variance(self.means, self.spreads) / self.seeds
        return np.asarray(np.maximum(of_means, LEAST_ERROR**2))

    def without(self, arm: int) -> MeasuredArms:
        """All arms except one."""
        kept = np.arange(len(self.names)) != arm
        arrays = {name: getattr(self, name)[kept] for name in ("shares", "means", "seeds", "spreads")}
        return replace(self, names=[name for name, keep in zip(self.names, kept, strict=True) if keep], **arrays)


@dataclass(frozen=True)
class Prediction:
    """Predicted metric at P points.

    Attributes
    ----------
    mean, variance : (P,) arrays
        On the scale of the model.
    degrees : int
        Degrees of freedom of the intervals.
    scale : Scale
        Scale of the model.
    """

    mean: np.ndarray
    variance: np.ndarray
    degrees: int
    scale: Scale

    @property
    def estimate(self) -> np.ndarray:
        """Medians in units of the metric."""
        return self.scale.back(self.mean)

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the intervals in units of the metric, by Student's t."""
        margin = stdtrit(self.degrees, (1 + confidence) / 2) * np.sqrt(self.variance)
        return self.scale.back(self.mean - margin), self.scale.back(self.mean + margin)

    def of_new_arms(self, spread: float, seeds: int | np.ndarray) -> Prediction:
        """Prediction of the measured metric of new arms with `seeds` seeds: adds the noise of their seeds."""
        return replace(self, variance=self.variance + self.scale.seed_variance(self.estimate, spread) / seeds)

    def improvement(self, best: float, higher_is_better: bool) -> np.ndarray:
        """Expected improvement over `best` (Jones, Schonlau and Welch 1998), in units of the metric."""
        values = self.scale.back(self.mean[:, None] + np.sqrt(self.variance)[:, None] * QUANTILES)
        gain = values - best if higher_is_better else best - values
        return np.asarray(np.maximum(gain, 0.0).mean(axis=1))


def _shares(evidence: np.ndarray) -> np.ndarray:
    """Likelihood of each model as a share of the sum, from -2 times the logarithms of the likelihoods."""
    likelihood = np.exp(-0.5 * (evidence - evidence.min(axis=0)))
    return np.asarray(likelihood / likelihood.sum(axis=0))


class Surface:
    """The model, fitted to arms. With many arms, unlikely models of the grid are left out.

    Parameters
    ----------
    arms : MeasuredArms
        Two or more arms.
    """

    def __init__(self, arms: MeasuredArms):
        self.arms = arms
        spread = max(float(arms.values.std()), float(np.sqrt(arms.variances.mean())))
        lengths, amplitudes = np.meshgrid(LENGTHS, spread * AMPLITUDES)
        self.lengths, self.amplitudes = lengths.ravel(), amplitudes.ravel()
        if len(arms.names) > MANY_ARMS:
            evidence = np.empty(len(self.lengths))
            for of_length in (slice(number, None, len(LENGTHS)) for number in range(len(LENGTHS))):
                evidence[of_length] = [self._evidence(of) for of in self._covariance(arms.shares, of_length)]
            likely = np.exp(-0.5 * (evidence - evidence.min())) > LEAST_LIKELY
            self.lengths, self.amplitudes = self.lengths[likely], self.amplitudes[likely]
        covariance = self._covariance(arms.shares) + np.diag(arms.variances)
        self.inverse = np.linalg.inv(covariance)
        self.of_ones = self.inverse.sum(axis=2)  # the inverse times a vector of ones
        self.precision = self.of_ones.sum(axis=1)
        self.level = self.of_ones @ arms.values / self.precision
        rest = arms.values - self.level[:, None]
        self.pulls = np.einsum("gab,gb->ga", self.inverse, rest)
        self.evidence = np.linalg.slogdet(covariance)[1] + np.log(self.precision) + (rest * self.pulls).sum(axis=1)
        self.weights = _shares(self.evidence)

    def _evidence(self, covariance: np.ndarray) -> float:
        """-2 times the logarithm of the restricted likelihood of a model, without a constant, from its covariances."""
        of_values = covariance + np.diag(self.arms.variances)
        factor, lower = cho_factor(of_values, lower=True, overwrite_a=True, check_finite=False)
        values = self.arms.values
        of_ones, of_values = cho_solve((factor, lower), np.array([np.ones(len(values)), values]).T).T
        quadratic = values @ of_values - (of_ones @ values) ** 2 / of_ones.sum()
        return float(2 * np.log(np.diag(factor)).sum() + np.log(of_ones.sum()) + quadratic)

    def _covariance(self, points: np.ndarray, models: slice = slice(None)) -> np.ndarray:
        """(G, P, arms) array: covariances of points with the arms, for each of the G models of the grid."""
        squared = np.square(points[:, None] - self.arms.shares).sum(axis=2)
        lengths, length_of_model = np.unique(self.lengths[models], return_inverse=True)
        correlations = np.exp(-squared / (2 * lengths[:, None, None] ** 2))
        return np.asarray(self.amplitudes[models, None, None] ** 2 * correlations[length_of_model])

    def left_out(self) -> Prediction:
        """Predict each arm from the other arms, without another fit.

        The predictions follow from the inverse covariance of all arms (Dubrule, "Cross validation of kriging in a
        unique neighborhood", 1983). The amplitudes of the grid are those for all arms.
        """
        diagonal = np.diagonal(self.inverse, axis1=1, axis2=2) - self.of_ones**2 / self.precision[:, None]
        means = self.arms.values - self.pulls / diagonal
        variances = np.maximum(1 / diagonal - self.arms.variances, 0.0)
        weights = _shares(self.evidence[:, None] + np.log(diagonal) - self.pulls**2 / diagonal)
        mean = (weights * means).sum(axis=0)
        variance = (weights * (variances + (means - mean) ** 2)).sum(axis=0)
        return Prediction(mean, variance, len(self.arms.names) - 2, self.arms.scale)

    def predict(self, points: np.ndarray) -> Prediction:
        """Predict the expected metric at (P, components) shares: mean and variance over all models of the grid."""
        covariance = self._covariance(points)
        means = self.level[:, None] + np.einsum("gpa,ga->gp", covariance, self.pulls)
        known = ((covariance @ self.inverse) * covariance).sum(axis=2)
        missing = 1 - np.einsum("gpa,ga->gp", covariance, self.of_ones)
        variances = self.amplitudes[:, None] ** 2 - known + missing**2 / self.precision[:, None]
        mean = self.weights @ means
        variance = self.weights @ (np.maximum(variances, 0.0) + (means - mean) ** 2)
        return Prediction(mean, variance, len(self.arms.names) - 1, self.arms.scale)
