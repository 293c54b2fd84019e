"""Means over seeds and questions: standard error, interval, p-value, equivalence.

`analysis.evaluation.answers` calls it for each arm and difference of the tables, and for the looks of a sequential
study. `design.power` simulates with the same margins. It knows arrays alone, so that benchmarks can measure it on
studies whose truth is known.

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

#: An interval is at least this share of the length that it would have if seeds did not differ: few seeds can have
#: nearly equal means by chance.
SHORTEST = 0.5

#: Degrees of freedom at which Student's t has the tail of an exponential distribution: its quantiles at .0005 and 1e-5
#: are 2.1 and 3.4 times that at .025, and those of the exponential distribution 2.1 and 3.1 times.
EXPONENTIAL = 10.0

#: Resamples say nothing reliable about normal scores further out than this.
FURTHEST = 3.0


class Spread(NamedTuple):
    """Standard errors, (metrics,), of a mean over seeds and questions; the seeds' of two arms are (2, metrics)."""

    of_seeds: np.ndarray
    of_questions: np.ndarray
    degrees: np.ndarray  # of freedom of `of_seeds`
    question_degrees: np.ndarray  # of freedom of `of_questions`
    least: np.ndarray  # smallest standard error that is assumed, whatever the seeds
    skewness: np.ndarray  # of the mean, from the choice of questions, in [-1, 1]


class Distribution(NamedTuple):
    """A mean and how it is distributed."""

    estimate: np.ndarray  # (metrics,)
    spread: Spread
    deviations: np.ndarray  # (resamples, metrics): means, centred, over their standard deviation, in ascending order
    low: np.ndarray  # (metrics,), lowest value that the metric can have
    high: np.ndarray  # (metrics,), highest value
    seeds: int | np.ndarray  # number that the means are over, of all metrics or of each
    questions: int  # number that the means are over
    paired: bool | np.ndarray = True  # of a difference: whether it is paired by seed, for all metrics or each

    def margin(self, factor: Callable[[np.ndarray | float], np.ndarray]) -> np.ndarray:
        """Distance from the mean to an end of its interval: `factor`, of degrees of freedom, times standard errors."""
        # Margins of independent terms, here of seeds and questions, add up by their squares (MOVER; Zou and Donner,
        # "Construction of confidence limits about effect measures", Statistics in Medicine 2008).
        seeds, questions = factor(self.spread.degrees), factor(self.spread.question_degrees)
        of_seeds = np.hypot.reduce(np.atleast_2d(self.spread.of_seeds * seeds), axis=0)
        of_both = np.hypot(of_seeds, self.spread.of_questions * questions)
        return np.maximum(of_both, self.spread.least * questions)


def spread(values: np.ndarray) -> Spread:
    """Standard errors of means of (metrics, seeds, questions) values, seeds and questions both drawn from larger sets.

    The variance is (MS_seed + MS_question - MS_residual) / (S Q), by a two-way analysis of variance (Searle, Casella
    and McCulloch, "Variance Components", 1992, chapter 4), where MS_question - MS_residual is at least 0; with one seed
    it is the variance between questions over Q.
    """
    _, seeds, questions = values.shape
    centred = _centred(values)
    by_question = centred.mean(axis=1)
    third = (by_question * by_question * by_question).mean(axis=1) / questions**2  # ** would take 100 times as long
    return spread_of(_mean_squares(centred, by_question), seeds, questions, third)


class MeanSquares(NamedTuple):
    """Mean squares of a two-way analysis of variance of seeds and questions: (metrics,) arrays."""

    seed: np.ndarray
    question: np.ndarray
    residual: np.ndarray


def mean_squares(values: np.ndarray) -> MeanSquares:
    """Mean squares of a (metrics, seeds, questions) array of questions' means over their samples."""
    centred = _centred(values)
    return _mean_squares(centred, centred.mean(axis=1))


def _centred(values: np.ndarray) -> np.ndarray:
    mean = values.mean(axis=(1, 2), keepdims=True)
    centred = values - mean
    size = np.maximum(centred.max(axis=(1, 2)), -centred.min(axis=(1, 2)))
    centred[size < 1e-9 * (1 + np.abs(mean[:, 0, 0]))] = 0.0  # rounding of equal values
    return np.asarray(centred)


def _mean_squares(centred: np.ndarray, by_question: np.ndarray) -> MeanSquares:
    _, seeds, questions = centred.shape
    by_seed = centred.mean(axis=2)
    total = np.einsum("msq,msq->m", centred, centred)
    seed_sum, question_sum = questions * (by_seed**2).sum(axis=1), seeds * (by_question**2).sum(axis=1)
    rest = np.maximum(total - seed_sum - question_sum, 0.0) / max((seeds - 1) * (questions - 1), 1)
    return MeanSquares(seed_sum / max(seeds - 1, 1), question_sum / max(questions - 1, 1), rest)


def spread_of(squares: MeanSquares, seeds: int, questions: int, third: np.ndarray | float = 0.0) -> Spread:
    """Standard errors from mean squares; `third` is the part of the mean's third central moment that questions make."""
    cells = seeds * questions
    from_seeds, from_questions = squares.seed / cells, np.maximum(squares.question - squares.residual, 0.0) / cells
    # Means of few seeds can be nearly equal by chance; questions and samples then leave more doubt than the seeds show.
    alone = np.sqrt(np.maximum(squares.question, squares.residual) / cells)
    error = np.maximum(np.sqrt(from_seeds + from_questions), alone)
    skewness = np.divide(third, error**3, out=np.zeros_like(error), where=error > 0)
    degrees, question_degrees = (np.full(len(error), max(size - 1.0, 1.0)) for size in (seeds, questions))
    skewness = np.clip(skewness, -1.0, 1.0)
    return Spread(np.sqrt(from_seeds), np.sqrt(from_questions), degrees, question_degrees, SHORTEST * alone, skewness)


def moderated(own: Spread, seeds: int | np.ndarray, seed_variance: SeedVariance) -> Spread:
    """The spread with a moderated variance between seeds, which other arms lend to (`SeedMeans.of_contrast`)."""
    return own._replace(of_seeds=np.sqrt(seed_variance.variance / seeds), degrees=seed_variance.degrees)


def doubt_of_equal_values(
    own: Spread,
    estimate: np.ndarray,
    limits: tuple[np.ndarray, np.ndarray],
    questions: int,
    scale: np.ndarray | float = 0.0,
) -> Spread:
    """The spread, with an error of questions also where all questions' values are equal: others need not be.

    Its 95 % margin is Clopper and Pearson's for none of n questions, times the distance to the furthest possible value;
    without a range to 0, or the `scale` of a difference if that is more. Other levels are of `EXPONENTIAL` degrees.
    """
    nothing = (own.of_questions == 0) & (own.least == 0)
    share = proportion_confint(0, questions, 0.05, method="beta")[1]  # nearly -log(.025) / n
    unlimited = np.maximum(np.abs(estimate), scale)
    furthest = np.maximum(*(np.where(np.isfinite(end), np.abs(estimate - end), unlimited) for end in limits))
    of_questions = share * furthest / stdtrit(EXPONENTIAL, 0.975)
    return own._replace(
        of_questions=np.where(nothing, of_questions, own.of_questions),
        question_degrees=np.where(nothing, EXPONENTIAL, own.question_degrees),
    )


@lru_cache(maxsize=16)
def _shares(resamples: int, size: int, *labels: str) -> np.ndarray:
    """Shares of resampled seeds or questions, drawn by `labels`; cached, as arms with the same questions share them."""
    rng = generator(*labels)
    shares = np.empty((resamples, size), dtype=np.float32)
    at_once = max(1, PICKS_AT_ONCE // size)
    for first in range(0, resamples, at_once):
        part = shares[first : first + at_once]
        part[:] = resampling_shares(len(part), size, rng)
    shares.flags.writeable = False
    return shares


def resampled_seeds(values: np.ndarray, label: str, resamples: int) -> np.ndarray:
    """(resamples, metrics, seeds) means over resampled questions, which `label` decides for all arms alike."""
    metrics, seeds, questions = values.shape
    flat = values.reshape(metrics * seeds, questions).astype(np.float32)
    return (_shares(resamples, questions, "questions", label) @ flat.T).reshape(resamples, metrics, seeds)


def resampled_means(by_seed: np.ndarray, *labels: str) -> np.ndarray:
    """(resamples, metrics) means of `resampled_seeds` over seeds drawn with replacement, as `labels` decide."""
    drawn = _shares(len(by_seed), by_seed.shape[2], "seeds", *labels)
    return np.einsum("bms,bs->bm", by_seed, drawn).astype(float)


def distribution(
    values: np.ndarray,
    by_seed: np.ndarray,
    label: str,
    limits: tuple[np.ndarray, np.ndarray],
    seed_variance: SeedVariance | None = None,
    scale: np.ndarray | float = 0.0,
) -> Distribution:
    """How the means of (metrics, seeds, questions) values are distributed; `by_seed` has their `resampled_seeds`.

    `limits` are each metric's lowest and highest value. Without `seed_variance` seeds vary as the values say. `scale`,
    the size of the means that a difference subtracts, counts where all seeds have equal differences.
    """
    _, seeds, questions = values.shape
    means = resampled_means(by_seed, label)
    estimate = values.mean(axis=(1, 2))
    of_mean = spread(values)
    scale = np.where(of_mean.of_seeds == 0, scale, 0.0)
    of_mean = doubt_of_equal_values(of_mean, estimate, limits, questions, scale)
    if seed_variance is not None:
        of_mean = moderated(of_mean, seeds, seed_variance)
    return Distribution(estimate, of_mean, standardised(means), *limits, seeds, questions)


class Sample(NamedTuple):
    """Answers of one of two arms with different seeds; `benchmarks/different_seeds.py` measures the coverage."""

    values: np.ndarray  # (metrics, seeds, questions), means over samples
    by_seed: np.ndarray  # (resamples, metrics, seeds), `resampled_seeds` of the values, with the label of the questions
    seed_variance: SeedVariance | None = None  # between the arm's seeds; None for the variance of the values alone


def distribution_of_unpaired_difference(
    own: Sample, other: Sample, label: str, limits: tuple[np.ndarray, np.ndarray]
) -> Distribution:
    """Means of one arm minus those of another, each over all of its seeds; its `seeds` is the smaller number."""
    estimate = own.values.mean(axis=(1, 2)) - other.values.mean(axis=(1, 2))
    means = resampled_means(own.by_seed, label) - resampled_means(other.by_seed, label, "other arm")
    seeds, questions = min(own.values.shape[1], other.values.shape[1]), own.values.shape[2]
    by_seed = [sample.values.mean(axis=2) for sample in (own, other)]
    scale = np.max([np.abs(of_seeds.mean(axis=1)) for of_seeds in by_seed], axis=0)
    equal = np.all([np.ptp(of_seeds, axis=1) <= 1e-9 * (1 + scale) for of_seeds in by_seed], axis=0)
    of_mean = doubt_of_equal_values(spread_of_two(own, other), estimate, limits, questions, np.where(equal, scale, 0.0))
    return Distribution(estimate, of_mean, standardised(means), *limits, seeds, questions, paired=False)


def shorter(one: Distribution, other: Distribution) -> Distribution:
    """For each metric, at all levels, the distribution of the smaller 95 % margin: paired (`one`) or unpaired."""
    margins = [mean.margin(lambda degrees: stdtrit(degrees, 0.975)) for mean in (one, other)]
    first = margins[0] <= margins[1]
    zeros = np.zeros_like(one.spread.of_seeds)  # the second row, which `other` has for its second arm
    paired = one.spread._replace(
        of_seeds=np.stack([one.spread.of_seeds, zeros]), degrees=np.stack([one.spread.degrees, zeros + 1])
    )
    chosen = Spread(*(np.where(first, *parts) for parts in zip(paired, other.spread, strict=True)))
    return other._replace(
        estimate=np.where(first, one.estimate, other.estimate),
        seeds=np.where(first, one.seeds, other.seeds),
        deviations=np.where(first, one.deviations, other.deviations),
        spread=chosen,
        paired=first,
    )


def spread_of_two(own: Sample, other: Sample) -> Spread:
    """Standard errors of the difference: `of_seeds` and `degrees` are (2, metrics) arrays, a row an arm.

    With S and T seeds, the variance from Q questions is (variance between questions of the difference - residual / S -
    residual / T) / Q, never below 0, with each arm's residual mean square; with S = T it is that of the paired one.
    """
    samples, questions = (own, other), own.values.shape[2]
    alone = [spread(sample.values) for sample in samples]
    residual = np.sum([mean_squares(of_arm.values).residual / of_arm.values.shape[1] for of_arm in samples], axis=0)
    by_question = own.values.mean(axis=1) - other.values.mean(axis=1)
    third = ((by_question - by_question.mean(axis=1, keepdims=True)) ** 3).mean(axis=1) / questions**2
    from_seeds = np.sum([of_arm.of_seeds**2 for of_arm in alone], axis=0)
    squares = MeanSquares(questions * from_seeds, mean_squares(by_question[:, None]).question, residual)
    of_seeds = [
        of_arm if sample.seed_variance is None else moderated(of_arm, sample.values.shape[1], sample.seed_variance)
        for of_arm, sample in zip(alone, samples, strict=True)
    ]
    return spread_of(squares, 1, questions, third)._replace(
        of_seeds=np.stack([of_arm.of_seeds for of_arm in of_seeds]),
        degrees=np.stack([of_arm.degrees for of_arm in of_seeds]),
    )


def standardised(resampled: np.ndarray) -> np.ndarray:
    """Deviations from the mean over the standard deviation, in ascending order; normal scores where all are equal."""
    mean = resampled.mean(axis=0)
    deviations = np.sort(resampled - mean, axis=0)
    width = deviations.std(axis=0)
    normal = np.broadcast_to(_scores(len(deviations))[:, None], deviations.shape).copy()
    varies = width > 1e-6 * np.abs(mean)  # resampled means are rounded to float32
    return np.divide(deviations, width, out=normal, where=varies)


@lru_cache(maxsize=4)
def _scores(size: int) -> np.ndarray:
    """Normal scores of a sample in ascending order."""
    return np.asarray(ndtri((np.arange(size) + 0.5) / size))


def _quantiles(mean: Distribution, scores: np.ndarray) -> np.ndarray:
    """Quantiles of distributions of means, one for each metric, at the levels of normal scores.

    The bias-corrected and accelerated bootstrap (BCa; Efron, "Better bootstrap confidence intervals", JASA 1987), with
    a sixth of the skewness as both constants, stretched by the margin of Student's t over the normal quantile.
    """
    acceleration = mean.spread.skewness / 6
    inner = np.clip(scores, -FURTHEST, FURTHEST)
    shifted = acceleration + inner
    levels = acceleration + shifted / (1 - acceleration * shifted) + (scores - inner)
    grid = _scores(len(mean.deviations))
    inside = np.clip(levels, grid[0], grid[-1])
    below = np.minimum(np.searchsorted(grid, inside, side="right"), len(grid) - 1) - 1
    column, width = np.arange(len(inside)), grid[below + 1] - grid[below]
    lower, upper = mean.deviations[below, column], mean.deviations[below + 1, column]
    deviations = (upper - lower) / width * (inside - grid[below]) + lower  # linear interpolation
    margin = mean.margin(lambda degrees: -stdtrit(degrees, ndtr(-np.abs(scores))))
    return mean.estimate + (deviations + levels - inside) * margin / np.abs(scores)


def intervals(mean: Distribution, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals that hold the true means with probability `confidence`, within the metrics' ranges."""
    scores = ndtri([(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = (np.clip(_quantiles(mean, np.full(len(mean.estimate), score)), mean.low, mean.high) for score in scores)
    # The interval of an extremely skewed distribution may not contain the mean itself.
    return np.minimum(low, mean.estimate), np.maximum(high, mean.estimate)


def p_values(mean: Distribution, null: float = 0.0) -> np.ndarray:
    """Two-sided p-values of means being `null`: one minus the confidence at which an interval just reaches `null`."""
    scores = _scores_at(mean, np.full(len(mean.estimate), null))
    return np.where(mean.estimate == null, 1.0, np.minimum(1.0, 2 * ndtr(-scores)))


def p_equivalent(mean: Distribution, margin: float) -> np.ndarray:
    """p-values of means lying outside of (-margin, margin), by two one-sided tests (Schuirmann 1987)."""
    sides = []
    for end in (-margin, margin):
        inside = (mean.estimate - end) * np.sign(end) < 0
        tail = ndtr(-_scores_at(mean, np.full(len(mean.estimate), end)))
        sides.append(np.where(inside, tail, 1 - tail))
    return np.asarray(np.maximum(*sides))


def _scores_at(mean: Distribution, values: np.ndarray) -> np.ndarray:
    """Normal scores, from 0 up, of the one-sided levels at which intervals just reach `values`; NaN without ends."""
    side = np.sign(values - mean.estimate)
    signs = np.where(side == 0, 1.0, side)
    near, far = np.zeros(len(side)), np.full(len(side), 37.0)  # its p-value is near the smallest double
    with np.errstate(invalid="ignore"):
        for _ in range(36):  # by halves, to 1e-9
            middle = (near + far) / 2
            beyond = (_quantiles(mean, signs * middle) - values) * side > 0
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
        has_ends = ~np.isnan(_quantiles(mean, signs))
    return np.where(has_ends, np.where(side == 0, 0.0, far), np.nan)


def holm(p: np.ndarray) -> np.ndarray:
    """p-values that hold for all tests together (Holm 1979)."""
    # As statsmodels' `multipletests`, which collects garbage at each call, for a tenth of a second or more.
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted
