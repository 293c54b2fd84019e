"""Summaries over seeds and data sets: interquartile mean and probability of improvement.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021, arXiv
2108.13264, with data sets as tasks and seeds as runs. Their library, rliable, is no longer kept up.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import trim_mean

from reward_ablation.analysis.statistics.estimates import Distribution, spread, standardised


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half of all seeds' scores on all data sets: (..., seeds, datasets) to (...) array.

    A quarter of the scores is left out at each end, rounded down: none of fewer than four.
    """
    return np.asarray(trim_mean(scores.reshape(*scores.shape[:-2], -1), 0.25, axis=-1))


def probability_of_improvement(scores: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """How often a seed scores higher than a seed of the baseline: over all pairs, then over data sets; a tie is half.

    On each data set this is Mann and Whitney's U over the number of pairs. Both arrays are (..., seeds, datasets), and
    their numbers of seeds may differ. The result is a (...) array in [0, 1].
    """
    own, others = np.moveaxis(scores, -2, 0), np.moveaxis(baseline, -2, 0)
    twice = sum((one > other).astype(int) + (one >= other) for one in own for other in others)
    return np.asarray(np.sum(twice, axis=-1) / (2 * len(own) * len(others) * scores.shape[-1]))


def redrawn(by_seed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scores of resampled studies: seeds drawn with replacement, the same seeds for all data sets.

    Questions were drawn before, within each data set: data sets are the strata of this bootstrap. One model answers all
    data sets, so its seed is drawn for all of them at once. In rliable, each task has its own runs and draws them.

    `by_seed` is a (resamples, metrics, seeds, datasets) array of means over resampled questions; so is the result.
    """
    resamples, _, seeds, _ = by_seed.shape
    picks = rng.integers(seeds, size=(resamples, 1, seeds, 1))
    return np.take_along_axis(by_seed, picks, axis=2)


def distribution_of_iqm(
    values: list[np.ndarray], resampled: np.ndarray, limits: tuple[np.ndarray, np.ndarray]
) -> Distribution:
    """Distribution of interquartile means: the resampled one, stretched as the plain mean over data sets needs it.

    With few seeds a bootstrap is too narrow. The factor is known for a mean, from its variance components (`spread`).
    The mean of the middle half is taken to need the same factor.

    Parameters
    ----------
    values : list of (metrics, seeds, questions) arrays
        One for each data set.
    resampled : (resamples, metrics, seeds, datasets) array
        Scores of resampled studies, by `redrawn`.
    limits : two (metrics,) arrays
        Lowest and highest value of each metric.
    """
    seeds, questions = values[0].shape[1], sum(of.shape[2] for of in values)
    # The factors turn the mean over questions into that over data sets. Data sets are not drawn: no variance of theirs.
    parts = [(of - of.mean(axis=(1, 2), keepdims=True)) * questions / (len(values) * of.shape[2]) for of in values]
    of_mean = spread(np.concatenate(parts, axis=2))
    estimate = interquartile_mean(np.stack([of.mean(axis=2) for of in values], axis=-1))
    middle, mean = interquartile_mean(resampled).astype(float), resampled.mean(axis=(2, 3)).astype(float)
    width = mean.std(axis=0)
    ratio = np.divide(middle.std(axis=0), width, out=np.ones_like(width), where=width > 0)
    of_middle = of_mean._replace(
        of_seeds=of_mean.of_seeds * ratio, of_questions=of_mean.of_questions * ratio, least=of_mean.least * ratio
    )
    return Distribution(estimate, of_middle, standardised(middle), *limits, seeds, questions)
