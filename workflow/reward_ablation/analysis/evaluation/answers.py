"""Estimates of arms and of their differences, from the means of their questions.

The tables of evaluated models, the claims, the looks of a sequential study (tests after more and more seeds) and
`compare` call it, so that all of them pair seeds and borrow variances alike. `power` takes `limits_of` from it. The
formulas are in `analysis.statistics`, which knows no arms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import Metrics, metrics_of_study
from reward_ablation.analysis.evaluation.question_means import DEFAULT, QuestionMeans, lent_to_declared
from reward_ablation.analysis.evaluation.stored_answers import Reader
from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    Sample,
    distribution,
    distribution_of_unpaired_difference,
    intervals,
    moderated,
    p_equivalent,
    p_values,
    resampled_seeds,
    shorter,
)
from reward_ablation.analysis.statistics.limits import SHARE, Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans, SeedVariance
from reward_ablation.analysis.study_file import StudyFile

#: Pairs of data set and arm whose answers are held: some MB each. Arms that others are compared with stay among them.
ARMS_HELD = 256


class Answered(NamedTuple):
    """Results of an arm's models, a model a seed, on a data set in a mode."""

    metrics: list[str]
    seeds: list[int | None]  # None for the base model
    values: np.ndarray  # (metrics, seeds, questions), means over samples
    by_seed: np.ndarray  # (resamples, metrics, seeds), means over resampled questions, the same resamples for every arm
    limits: list[Limits]  # of each metric in an arm, also if `values` are differences of arms
    scale: np.ndarray | float = 0.0  # of differences: the larger size of the means that were subtracted, by metric

    def of_seeds(self, seeds: Sequence[int | None]) -> Answered:
        """The results of the models of some seeds, in their order."""
        chosen = [self.seeds.index(seed) for seed in seeds]
        return self._replace(seeds=[*seeds], values=self.values[:, chosen], by_seed=self.by_seed[:, :, chosen])


def answered(
    means: Mapping[int | None, QuestionMeans], dataset: str, resamples: int, metrics: Metrics = DEFAULT
) -> dict[str, Answered]:
    """Question means of an arm's seeds, which answered the same questions, with their resamples, by mode."""
    of_modes = {}
    for mode, first in next(iter(means.values())).items():
        values = np.stack([of_seed[mode].values for of_seed in means.values()], axis=1)
        by_seed = resampled_seeds(values, dataset, resamples)
        limits = [metrics.limits(name) for name in first.metrics]
        of_modes[mode] = Answered(first.metrics, list(means), values, by_seed, limits)
    return of_modes


#: An arm's answers by mode, from the data set and the arm.
AnswersReader = Callable[[str, str], dict[str, Answered]]


def answers_reader(study: StudyFile, read: Reader) -> AnswersReader:
    """The reader of the arms' answers with their resamples. `read` gives question means by seed."""
    metrics = metrics_of_study(study)

    @lru_cache(maxsize=ARMS_HELD)
    def answers(dataset: str, arm: str) -> dict[str, Answered]:
        return answered(read(dataset, arm), dataset, study.bootstrap, metrics)

    return answers


def paired_by_seed(arm: Answered, baseline: Answered) -> bool:
    """Whether two arms are subtracted seed by seed: equal seeds, or a single one, which the other has, too."""
    own, other = set(arm.seeds), set(baseline.seeds)
    return own == other or (min(len(own), len(other)) == 1 and bool(own & other))


def difference(arm: Answered, baseline: Answered) -> Answered:
    """Arm minus baseline for the seeds that both have: what the seed's order of the data does to both cancels."""
    seeds = [seed for seed in arm.seeds if seed in baseline.seeds]
    own, other = arm.of_seeds(seeds), baseline.of_seeds(seeds)
    scale = np.max([np.abs(answers.values.mean(axis=(1, 2))) for answers in (own, other)], axis=0)
    return own._replace(values=own.values - other.values, by_seed=own.by_seed - other.by_seed, scale=scale)


def distribution_of(
    answers: Answered, dataset: str, reach: tuple[float, float] = (0.0, 1.0), seed_variance: SeedVariance | None = None
) -> Distribution:
    """Distribution of each metric's mean; `reach` has the ends of the range of a share, or of a contrast of shares."""
    limits = limits_of(answers.limits, reach)
    return distribution(answers.values, answers.by_seed, dataset, limits, seed_variance, answers.scale)


def limits_of(limits: list[Limits], reach: tuple[float, float] = (0.0, 1.0)) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value of each metric, or of its contrast whose value for a share lies in `reach`."""
    ends = [_within(metric_limits, reach) for metric_limits in limits]
    return np.array([low for low, _ in ends]), np.array([high for _, high in ends])


def _within(limits: Limits, reach: tuple[float, float]) -> tuple[float, float]:
    """Ends of the range of a contrast, whose negative and positive coefficients add up to the two values of `reach`."""
    if limits.finite:
        low, high = (limits.low * sum(reach) + (limits.high - limits.low) * end for end in reach)
        return low, high
    low, high = (end * np.inf if end else 0.0 for end in reach)
    return (low, high) if limits.low == 0 else (-np.inf, np.inf)


#: Columns of a table by name: arrays, and values that all rows have.
Columns = dict[str, Any]


def estimate_columns(mean: Distribution, metrics: list[str], confidence: float) -> Columns:
    """Mean and interval of each metric."""
    low, high = intervals(mean, confidence)
    names = np.array(metrics, dtype=object)
    return {
        **{"metric": names, "estimate": mean.estimate, "low": low, "high": high},
        **{"seeds": mean.seeds, "questions": mean.questions},
    }


def tested_columns(mean: Distribution, answers: Answered, confidence: float, margin: float | None) -> Columns:
    """Mean, interval and p-value of each metric; with a margin, shares also get the p-value of equivalence."""
    columns = estimate_columns(mean, answers.metrics, confidence) | {"p": p_values(mean), "p_equivalent": np.nan}
    if margin is None:
        return columns
    shares = np.array([limits == SHARE for limits in answers.limits])
    return columns | {"p_equivalent": np.where(shares, p_equivalent(mean, margin), np.nan)}


def rows_of_parts(parts: Sequence[Columns], **labels: Any) -> pd.DataFrame:
    """One table from parts with the same columns; the length of its `metric` is a part's number of rows."""
    sizes = [len(part["metric"]) for part in parts]
    columns = {
        name: np.concatenate([np.broadcast_to(part[name], size) for part, size in zip(parts, sizes, strict=True)])
        for name in parts[0]
    }
    return pd.DataFrame(columns | labels)


def evaluation_rows(
    of_modes: dict[str, Answered], arm: str, dataset: str, confidence: float, means: Mapping[str, SeedMeans]
) -> pd.DataFrame:
    """Estimates of one arm by mode and metric; `means` has seed means by mode to borrow, none for the base model."""
    parts = []
    for mode, answers in of_modes.items():
        variance, flags = moderated_seed_variance(means.get(mode), {arm: 1.0}, answers)
        mean = distribution_of(answers, dataset, seed_variance=variance)
        parts.append(estimate_columns(mean, answers.metrics, confidence) | {"mode": mode, "flagged_arms": flags})
    return rows_of_parts(parts, arm=arm, dataset=dataset)


def difference_rows(
    arm: str,
    against: str,
    answers: Mapping[str, dict[str, Answered]],
    dataset: str,
    study: StudyFile,
    means: Mapping[str, SeedMeans],
) -> pd.DataFrame:
    """One arm minus another for each mode and metric, with tests against 0. Arms of `means`, by mode, lend variance."""
    parts = []
    for mode, of_arm in answers[arm].items():
        other = answers[against][mode]
        declared = are_declared(study, arm, against, dataset, mode, of_arm.metrics)
        lent = (
            lent_to_declared(means[mode], study, arm, against) if declared.any() and mode in means else means.get(mode)
        )
        mean, flags = distribution_of_difference(of_arm, other, arm, against, dataset, lent)
        columns = tested_columns(mean, of_arm, study.confidence, study.equivalence_margin)
        columns |= {"family": np.where(declared, "primary", "exploratory"), "pooled_low": np.nan, "pooled_high": np.nan}
        if declared.any() and lent is not None and paired_by_seed(of_arm, other) and np.min(mean.seeds) > 1:
            low, high = pooled_ends(mean, of_arm, {arm: 1.0, against: -1.0}, lent, study.confidence)
            columns |= {"pooled_low": np.where(declared, low, np.nan), "pooled_high": np.where(declared, high, np.nan)}
        parts.append(columns | {"mode": mode, "flagged_arms": flags})
    return rows_of_parts(parts, arm=arm, baseline=against, dataset=dataset)


def are_declared(
    study: StudyFile, arm: str, against: str, dataset: str, mode: str, metrics: Sequence[str]
) -> np.ndarray:
    """Whether the study declared the comparison of two arms, by metric."""
    primary = study.primary
    pairs = [(contrast.arm, contrast.against) for contrast in primary.contrasts]
    is_pair = (primary.dataset, primary.mode) == (dataset, mode) and (arm, against) in pairs
    return is_pair & (np.array(metrics) == primary.metric)


def pooled_ends(
    mean: Distribution, own: Answered, contrast: Mapping[str, float], means: SeedMeans, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a paired difference's intervals if the seeds of all arms differ alike; NaN where arms do not lend."""
    if not means.lends:
        return np.full_like(mean.estimate, np.nan), np.full_like(mean.estimate, np.nan)
    seeds = [seed for seed in own.seeds if seed is not None]
    variance = means.of_contrast(contrast, seeds, pooled=True)
    return intervals(mean._replace(spread=moderated(mean.spread, mean.seeds, variance)), confidence)


def distribution_of_difference(
    own: Answered, other: Answered, arm: str, against: str, dataset: str, means: SeedMeans | None
) -> tuple[Distribution, np.ndarray]:
    """Distribution of each metric's mean of one arm minus another, and the flagged arms by metric.

    Arms are paired by seed where `paired_by_seed` says so. Otherwise, for each metric the smaller 95 % margin decides
    between the seeds that both arms have, paired, and all seeds of each arm; with fewer than two such seeds the latter.
    """
    shared = [seed for seed in own.seeds if seed in other.seeds]
    by_pairs: Distribution | None = None
    if paired_by_seed(own, other) or len(shared) > 1:
        paired = difference(own, other)
        variance, flags = moderated_seed_variance(means, {arm: 1.0, against: -1.0}, paired)
        by_pairs = distribution_of(paired, dataset, (-1.0, 1.0), variance)
        if paired_by_seed(own, other):
            return by_pairs, flags
    sample, other_sample = (
        Sample(answers.values, answers.by_seed, moderated_seed_variance(means, {name: 1.0}, answers)[0])
        for name, answers in ((arm, own), (against, other))
    )
    flags = np.full(len(own.metrics), None) if means is None else means.flagged_in({arm: 1.0, against: -1.0})
    of_all = distribution_of_unpaired_difference(sample, other_sample, dataset, limits_of(own.limits, (-1.0, 1.0)))
    return of_all if by_pairs is None else shorter(by_pairs, of_all), flags


def moderated_seed_variance(
    means: SeedMeans | None, coefficients: Mapping[str, float], answers: Answered
) -> tuple[SeedVariance | None, np.ndarray]:
    """Variance between seeds of a contrast and its flagged arms, by metric; None with one seed or without `means`."""
    if means is None or len(answers.seeds) < 2:
        return None, np.full(len(answers.metrics), None)
    seeds = [seed for seed in answers.seeds if seed is not None]
    return means.of_contrast(coefficients, seeds), means.flagged_in(coefficients)
