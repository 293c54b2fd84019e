"""Difference of two arms that were trained with different seeds.

Two arms with the same seeds are subtracted seed by seed. Where seeds differ, there are two ways. The seeds that both
arms have can be paired, so that what a seed does to both arms cancels; further seeds are then not used. Or each arm has
the mean over all of its seeds. The seeds of the two arms are then two samples, each with a variance and degrees of
freedom of its own, and their margins add up by their squares (MOVER, as in `estimates`). Questions stay paired, since
both arms answered the same ones. The shorter of the two intervals is taken, so that a seed that is missing or added
makes no interval longer than that of the seeds that both arms have. `benchmarks/different_seeds.py` measures what this
choice costs in coverage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    MeanSquares,
    Spread,
    doubt_of_equal_values,
    mean_squares,
    moderated,
    resampled_means,
    spread,
    spread_of,
    standardised,
)
from reward_ablation.analysis.statistics.seed_variance import SeedVariance

#: Level of the quantile by which two margins are compared.
LEVEL = 0.975


class Sample(NamedTuple):
    """One arm's answers."""

    values: np.ndarray  # (metrics, seeds, questions), means over samples
    by_seed: np.ndarray  # (resamples, metrics, seeds), `resampled_seeds` of the values, with the label of the questions
    seed_variance: SeedVariance | None = None  # between the arm's seeds; None for the variance of the values alone


def distribution_of_unpaired_difference(
    own: Sample, other: Sample, label: str, limits: tuple[np.ndarray, np.ndarray]
) -> Distribution:
    """Distribution of the means of one arm minus those of another, each over all of its seeds.

    Both arms answered the same questions, and have the same resamples. `label` names this set of questions, and
    `by_seed` was resampled with it. `limits` are the lowest and the highest value, (metrics,) each, that the metrics'
    differences can have. `seeds` of the result is the smaller of the two numbers of seeds.
    """
    estimate = own.values.mean(axis=(1, 2)) - other.values.mean(axis=(1, 2))
    means = resampled_means(own.by_seed, label) - resampled_means(other.by_seed, label, "other arm")
    seeds, questions = min(own.values.shape[1], other.values.shape[1]), own.values.shape[2]
    of_mean = doubt_of_equal_values(spread_of_two(own, other), estimate, limits, questions)
    return Distribution(estimate, of_mean, standardised(means), *limits, seeds, questions)


def shorter(one: Distribution, other: Distribution) -> Distribution:
    """Of two distributions of the same difference, for each metric the one with the shorter 95 % interval.

    `one` is of a paired difference, `other` of an unpaired one.
    """
    margins = [mean.margin(lambda degrees: stdtrit(degrees, LEVEL)) for mean in (one, other)]
    first = margins[0] <= margins[1]
    nothing = np.zeros_like(one.spread.of_seeds)
    paired = one.spread._replace(
        of_seeds=np.stack([one.spread.of_seeds, nothing]), degrees=np.stack([one.spread.degrees, nothing + 1])
    )
    spread = Spread(*(np.where(first, *parts) for parts in zip(paired, other.spread, strict=True)))
    return other._replace(
        estimate=np.where(first, one.estimate, other.estimate),
        deviations=np.where(first, one.deviations, other.deviations),
        spread=spread,
    )


def spread_of_two(own: Sample, other: Sample) -> Spread:
    """Standard errors of the difference: `of_seeds` and `degrees` are (2, metrics) arrays, a row an arm.

    With Q questions, S and T seeds and the residual mean squares of both arms, the variance that comes from questions
    is (variance between questions of the difference - residual / S - residual / T) / Q, never below 0. With S = T and
    independent seeds this is what `spread` has for the paired difference.
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
