"""Means over seeds and questions: standard error, interval, p-value, equivalence.

Every seed answers the same questions, so the two are crossed. A hierarchical bootstrap gives the shape of a mean's
distribution: seeds are drawn with replacement, then questions, once for all seeds, with all samples of a drawn question
(the last level without replacement, as Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section
3.8, find best). Its width is corrected with the variance components of seeds and questions and with Student's t,
because a plain bootstrap of three or five seeds is far too narrow. `docs/statistics.md` has the coverage in simulated
studies, `benchmarks/coverage.py` measures it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit  # scipy.stats checks its arguments for 0.3 ms a call
from statsmodels.stats.proportion import proportion_confint

from reward_ablation.analysis.statistics.intervals import PICKS_AT_ONCE, generator, resampling_shares
from reward_ablation.analysis.statistics.seed_variance import SeedVariance

#: An interval is at least this part of what it would be if seeds did not differ.
SHORTEST = 0.5

#: Normal scores further out than this are beyond what resamples tell.
FURTHEST = 3.0


class Spread(NamedTuple):
    """How a mean over seeds and questions varies between studies: (metrics,) arrays.

    Attributes
    ----------
    of_seeds, of_questions : array
        Standard errors from the choice of seeds, and from that of questions; independent of each other. Of two arms
        with seeds of their own, `of_seeds` is a (2, metrics) array.
    degrees : array
        Degrees of freedom of `of_seeds`, of the same shape.
    least : array
        Smallest standard error that is assumed, whatever the seeds.
    skewness : array
        Of the mean, as far as questions make it, in [-1, 1].
    """

    of_seeds: np.ndarray
    of_questions: np.ndarray
    degrees: np.ndarray
    least: np.ndarray
    skewness: np.ndarray


class Distribution(NamedTuple):
    """A mean and how it is distributed.

    Attributes
    ----------
    estimate : (metrics,) array
    deviations : (resamples, metrics) array
        Resampled means about their mean, over their standard deviation, in ascending order.
    low, high : (metrics,) arrays
        Range of the metric.
    """

    estimate: np.ndarray
    spread: Spread
    deviations: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int
    questions: int

    @property
    def all_equal(self) -> np.ndarray:
        """Whether all values of a metric are equal, so that they give no standard error."""
        seeds = np.atleast_2d(self.spread.of_seeds == 0).all(axis=0)
        return np.asarray(seeds & (self.spread.of_questions == 0) & (self.spread.least == 0))

    def margin(self, factor: Callable[[np.ndarray | float], np.ndarray]) -> np.ndarray:
        """Distance from the mean to an end of its interval.

        The choice of seeds and that of questions each have a margin with degrees of freedom of their own; margins of
        independent terms add up by their squares (MOVER; Zou and Donner, "Construction of confidence limits about
        effect measures", Statistics in Medicine 2008). So few seeds widen the far tails as far as they must.
        `factor` gives margin over standard error by degrees of freedom.
        """
        seeds, questions = factor(self.spread.degrees), factor(max(self.questions - 1.0, 1.0))
        of_seeds = np.hypot.reduce(np.atleast_2d(self.spread.of_seeds * seeds), axis=0)
        of_both = np.hypot(of_seeds, self.spread.of_questions * questions)
        return np.maximum(of_both, self.spread.least * questions)


def spread(values: np.ndarray) -> Spread:
    """Standard errors of means over seeds and questions, both drawn from larger populations.

    With the mean squares of a two-way analysis of variance of S seeds and Q questions

        variance = (MS_seed + MS_question - MS_residual) / (S Q)

    (Searle, Casella and McCulloch, "Variance Components", 1992, chapter 4), where MS_question - MS_residual is never
    taken below 0. With one seed it is the variance between questions, which says nothing about other seeds. `values` is
    a (metrics, seeds, questions) array of questions' means over their samples.
    """
    _, seeds, questions = values.shape
    centred = _centred(values)
    third = (centred.mean(axis=1) ** 3).mean(axis=1) / questions**2
    return spread_of(_mean_squares(centred), seeds, questions, third)


class MeanSquares(NamedTuple):
    """Mean squares of a two-way analysis of variance of seeds and questions: (metrics,) arrays."""

    seed: np.ndarray
    question: np.ndarray
    residual: np.ndarray


def mean_squares(values: np.ndarray) -> MeanSquares:
    """Mean squares of a (metrics, seeds, questions) array of questions' means over their samples."""
    return _mean_squares(_centred(values))


def _centred(values: np.ndarray) -> np.ndarray:
    mean = values.mean(axis=(1, 2), keepdims=True)
    centred = values - mean
    centred[(np.abs(centred) < 1e-9 * (1 + np.abs(mean))).all(axis=(1, 2))] = 0.0  # rounding of equal values
    return np.asarray(centred)


def _mean_squares(centred: np.ndarray) -> MeanSquares:
    _, seeds, questions = centred.shape
    by_question, by_seed = centred.mean(axis=1), centred.mean(axis=2)
    total = np.einsum("msq,msq->m", centred, centred)
    seed_sum, question_sum = questions * (by_seed**2).sum(axis=1), seeds * (by_question**2).sum(axis=1)
    rest = np.maximum(total - seed_sum - question_sum, 0.0) / max((seeds - 1) * (questions - 1), 1)
    return MeanSquares(seed_sum / max(seeds - 1, 1), question_sum / max(questions - 1, 1), rest)


def spread_of(squares: MeanSquares, seeds: int, questions: int, third: np.ndarray | float = 0.0) -> Spread:
    """Standard errors from mean squares; `third` is the third central moment of the mean that questions make."""
    cells = seeds * questions
    from_seeds, from_questions = squares.seed / cells, np.maximum(squares.question - squares.residual, 0.0) / cells
    # Means of few seeds can be all but equal by chance; questions and samples then leave more doubt than that.
    alone = np.sqrt(np.maximum(squares.question, squares.residual) / cells)
    error = np.maximum(np.sqrt(from_seeds + from_questions), alone)
    skewness = np.divide(third, error**3, out=np.zeros_like(error), where=error > 0)
    degrees = np.full(len(error), max(seeds - 1.0, 1.0))
    return Spread(np.sqrt(from_seeds), np.sqrt(from_questions), degrees, SHORTEST * alone, np.clip(skewness, -1.0, 1.0))


def moderated(own: Spread, seeds: int, seed_variance: SeedVariance) -> Spread:
    """The spread with another variance between seeds; where all values are equal there is none, and it stays so."""
    equal = (own.of_seeds == 0) & (own.of_questions == 0) & (own.least == 0)
    of_seeds = np.where(equal, 0.0, np.sqrt(seed_variance.variance / seeds))
    return own._replace(of_seeds=of_seeds, degrees=seed_variance.degrees)


@lru_cache(maxsize=16)
def _shares(resamples: int, size: int, *labels: str) -> np.ndarray:
    """Shares of resampled units, cached: all arms that answered the same questions have the same resamples."""
    rng = generator(*labels)
    shares = np.empty((resamples, size), dtype=np.float32)
    at_once = max(1, PICKS_AT_ONCE // size)
    for first in range(0, resamples, at_once):
        part = shares[first : first + at_once]
        part[:] = resampling_shares(len(part), size, rng)
    shares.flags.writeable = False
    return shares


def resampled_seeds(values: np.ndarray, label: str, resamples: int) -> np.ndarray:
    """(resamples, metrics, seeds) means of each seed over resampled questions, which are the same for all seeds.

    Parameters
    ----------
    values : (metrics, seeds, questions) array
    label : str
        Whose questions these are, which decides the random numbers. So resampled means add up across arms as the values
        do: those of a difference are the difference of those of its arms.
    """
    metrics, seeds, questions = values.shape
    flat = values.reshape(metrics * seeds, questions).astype(np.float32)
    return (_shares(resamples, questions, "questions", label) @ flat.T).reshape(resamples, metrics, seeds)


def resampled_means(by_seed: np.ndarray, *labels: str) -> np.ndarray:
    """(resamples, metrics) means of `resampled_seeds` over seeds that are drawn with replacement.

    `labels` decide the random numbers.
    """
    drawn = _shares(len(by_seed), by_seed.shape[2], "seeds", *labels)
    return np.einsum("bms,bs->bm", by_seed, drawn).astype(float)


def distribution(
    values: np.ndarray,
    by_seed: np.ndarray,
    label: str,
    limits: tuple[np.ndarray, np.ndarray],
    seed_variance: SeedVariance | None = None,
) -> Distribution:
    """How the means of metrics over seeds and questions are distributed.

    Parameters
    ----------
    values : (metrics, seeds, questions) array
    by_seed : (resamples, metrics, seeds) array
        `resampled_seeds` of the values, with the same label.
    limits : two (metrics,) arrays
        Lowest and highest value that each metric can have.
    seed_variance : SeedVariance, optional
        Variance between seeds; by default that of the values alone.
    """
    _, seeds, questions = values.shape
    means = resampled_means(by_seed, label)
    of_mean = spread(values) if seed_variance is None else moderated(spread(values), seeds, seed_variance)
    return Distribution(values.mean(axis=(1, 2)), of_mean, standardised(means), *limits, seeds, questions)


def standardised(resampled: np.ndarray) -> np.ndarray:
    """Each column's deviations from its mean over its standard deviation, in ascending order; 0 where all are equal."""
    deviations = np.sort(resampled - resampled.mean(axis=0), axis=0)
    width = deviations.std(axis=0)
    return np.divide(deviations, width, out=np.zeros_like(deviations), where=width > 0)


@lru_cache(maxsize=4)
def _scores(size: int) -> np.ndarray:
    """Normal scores of a sample in ascending order."""
    return np.asarray(ndtri((np.arange(size) + 0.5) / size))


def _at(of: Distribution, scores: np.ndarray) -> np.ndarray:
    """Quantiles of distributions of means, one for each metric, at the levels of normal scores.

    The bias-corrected and accelerated bootstrap (BCa; Efron, "Better bootstrap confidence intervals", JASA 1987),
    stretched by the margin of Student's t over the normal quantile. For a mean both of BCa's constants are a sixth of
    its skewness.
    """
    acceleration = of.spread.skewness / 6
    inner = np.clip(scores, -FURTHEST, FURTHEST)
    shifted = acceleration + inner
    levels = acceleration + shifted / (1 - acceleration * shifted) + (scores - inner)
    grid = _scores(len(of.deviations))
    inside = np.clip(levels, grid[0], grid[-1])
    columns = [np.interp(level, grid, column) for level, column in zip(inside, of.deviations.T, strict=True)]
    margin = of.margin(lambda degrees: -stdtrit(degrees, ndtr(-np.abs(scores))))
    return of.estimate + (np.array(columns) + levels - inside) * margin / np.abs(scores)


def intervals(of: Distribution, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals that hold the true means with probability `confidence`, within the metrics' ranges.

    Where all values are equal, an interval has the ends that the mean would have if, on as many questions as
    Clopper and Pearson's interval allows for none of n, the value were the lowest or the highest there is.
    """
    scores = ndtri([(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = (np.clip(_at(of, np.full(len(of.estimate), score)), of.low, of.high) for score in scores)
    other = proportion_confint(0, of.questions, 1 - confidence, method="beta")[1]
    equal = of.all_equal & np.isfinite(of.low) & np.isfinite(of.high)
    low = np.where(equal, of.estimate - other * np.where(equal, of.estimate - of.low, 0.0), low)
    high = np.where(equal, of.estimate + other * np.where(equal, of.high - of.estimate, 0.0), high)
    # A distribution that is skewed to the extreme can leave its own mean out.
    return np.minimum(low, of.estimate), np.maximum(high, of.estimate)


def p_values(of: Distribution, null: float = 0.0) -> np.ndarray:
    """Two-sided p-values of means being `null`: one minus the confidence at which an interval would just hold it."""
    of = of._replace(estimate=of.estimate - null, low=of.low - null, high=of.high - null)
    scores = _scores_at(of, np.zeros(len(of.estimate)))
    # All values equal: the same by `intervals` of that case; without a range, the sign test over questions.
    reach = np.where(of.estimate > 0, of.estimate - of.low, of.high - of.estimate)
    no_question = np.where(np.isfinite(reach), np.clip(1 - np.abs(of.estimate) / reach, 0.0, 1.0), 0.5) ** of.questions
    return np.where(of.estimate == 0, 1.0, np.minimum(1.0, 2 * np.where(of.all_equal, no_question, ndtr(-scores))))


def p_equivalent(of: Distribution, margin: float, confidence: float) -> np.ndarray:
    """p-values of means lying outside of (-margin, margin), by two one-sided tests (Schuirmann 1987).

    Small ones say that there is no difference as large as the margin. Where all values are equal there is no
    distribution: p is then 0 or 1, as the interval with this confidence lies inside the margin or not.
    """
    sides = []
    for end in (-margin, margin):
        inside = (of.estimate - end) * np.sign(end) < 0
        beyond = ndtr(-_scores_at(of, np.full(len(of.estimate), end)))
        sides.append(np.where(inside, beyond, 1 - beyond))
    low, high = intervals(of, confidence)
    within = (-margin < low) & (high < margin)
    return np.where(of.all_equal, np.where(within, 0.0, 1.0), np.maximum(*sides))


def _scores_at(of: Distribution, values: np.ndarray) -> np.ndarray:
    """Normal scores, from 0 up, of the one-sided levels at which an interval would just reach these values."""
    side = np.sign(values - of.estimate)
    near, far = np.zeros(len(side)), np.full(len(side), 37.0)
    with np.errstate(invalid="ignore"):
        for _ in range(36):  # by halves, to 1e-9
            middle = (near + far) / 2
            beyond = (_at(of, np.where(side == 0, 1.0, side) * middle) - values) * side > 0
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
    return np.where(side == 0, 0.0, far)


def holm(p: np.ndarray) -> np.ndarray:
    """p-values that hold for all of them together (Holm 1979).

    As statsmodels' `multipletests`, which collects garbage at each call, for a tenth of a second and more.
    """
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted
