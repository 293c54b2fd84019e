"""Accuracy, pass@k, agreement of the graders, format adherence and length from the answers of evaluated models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.special import gammaln

from reward_ablation.analysis.evaluation.coded_means import (
    cells_of,
    codes_of,
    is_coded,
    means_in_memory,
    means_of_cells,
)
from reward_ablation.analysis.evaluation.metrics import MATHEMATICS, Metrics
from reward_ablation.analysis.evaluation.run_means import (
    SAMPLED,
    QuestionMeans,
    columns_of,
    metrics_in,
    modes_of,
    rows_of,
)
from reward_ablation.analysis.statistics.different_seeds import Sample, distribution_of_unpaired_difference, shorter
from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    distribution,
    intervals,
    p_equivalent,
    p_values,
    resampled_seeds,
)
from reward_ablation.analysis.statistics.limits import SHARE, Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans, SeedVariance
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.config.sections.primary import sizes

#: The metrics of mathematics, which a study has unless it says otherwise.
DEFAULT = Metrics()


class Answered(NamedTuple):
    """Results of one arm's models, one for each seed, on one data set in one mode.

    Attributes
    ----------
    metrics : list of str
        Names of the metrics.
    seeds : list
        Seeds of the models; None for the base model.
    values : (metrics, seeds, questions) array
        Means of questions over their samples.
    by_seed : (resamples, metrics, seeds) array
        Means over resampled questions, the same resamples for every arm.
    limits : list of Limits
        Limits of each metric.
    """

    metrics: list[str]
    seeds: list[int | None]
    values: np.ndarray
    by_seed: np.ndarray
    limits: list[Limits]


def measured(answers: pd.DataFrame, metrics: Metrics = DEFAULT) -> pd.DataFrame:
    """Verdicts and scores as numbers, one column per metric, and whether the two graders of the strict answer differ.

    All answers count, also those without an extracted answer, to which both graders say no. So the rates say by how
    much an accuracy would change with the other grader, and their parts add up: accuracy_strict - accuracy_math_paper =
    correct_only_strict - correct_only_math_paper.
    """
    sources = list(metrics.sources.values())
    if not metrics.mathematics:
        return answers[sources].astype(float)
    strict, math_paper = answers["correct_strict"].astype(bool), answers["correct_math_paper"].astype(bool)
    columns = answers.assign(
        graders_differ=strict != math_paper,
        correct_only_strict=strict & ~math_paper,
        correct_only_math_paper=~strict & math_paper,
    )
    return columns[sources].astype(float)


def means_by_column(answers: pd.DataFrame | pa.Table, metrics: Metrics) -> QuestionMeans:
    """The columns of `question_means`, faster where answers are a table of Arrow with yes-or-no verdicts."""
    if isinstance(answers, pa.Table):
        if metrics.mathematics and is_coded(answers, {*MATHEMATICS.values(), "tokens"} & {*answers.column_names}):
            return _coded_means(answers, metrics)
        answers = answers.to_pandas()
    means = question_means(answers, metrics)
    return QuestionMeans(columns_of(means), means.index)


def question_means(answers: pd.DataFrame, metrics: Metrics = DEFAULT) -> pd.DataFrame:
    """Average the samples of each question.

    Rows (mode, problem_id), sorted; columns: answers (their number) and the metrics. Metrics of several samples, pass@k
    and maj@n, are null in the mode "greedy".
    """
    labels = [answers["mode"], answers["problem_id"]]
    grouped = measured(answers, metrics).groupby(labels, sort=True)
    means = grouped.mean().set_axis(list(metrics.sources), axis="columns")
    means.insert(0, "answers", grouped.size())
    sampled = answers[(answers["mode"] == SAMPLED).to_numpy()]
    if not len(sampled) or metrics.passed is None:
        return means
    question, problems = pd.factorize(sampled["problem_id"], sort=True)
    index = pd.MultiIndex.from_product([[SAMPLED], problems], names=["mode", "problem_id"])
    written = pd.factorize(sampled["answer"])[0] if metrics.mathematics else None
    of_samples = _of_samples(sampled[metrics.passed[0]].to_numpy(dtype=float), written, question, metrics.passed[1])
    return means.join(pd.DataFrame(of_samples, index=index))


def _coded_means(answers: pa.Table, metrics: Metrics) -> QuestionMeans:
    cell, index = cells_of(answers)
    read = {name: column for name, column in metrics.sources.items() if column in answers.column_names}
    values = {name: answers[column].to_numpy() for name, column in read.items()}
    strict, math_paper = (answers[f"correct_{grader}"].to_numpy() for grader in ("strict", "math_paper"))
    values["graders_differ"] = strict != math_paper
    values["correct_only_strict"], values["correct_only_math_paper"] = strict & ~math_paper, ~strict & math_paper
    means = means_of_cells({name: values[name] for name in metrics.sources}, cell, len(index))
    of_sampled = rows_of(index, SAMPLED)
    rows = np.flatnonzero((cell >= of_sampled.start) & (cell < of_sampled.stop))
    if len(rows) and metrics.passed is not None:
        question, written = cell[rows] - of_sampled.start, codes_of(answers["answer"])[0][rows]
        for name, of_questions in _of_samples(strict[rows], written, question, metrics.passed[1]).items():
            means[name] = np.full(len(index), np.nan)
            means[name][of_sampled] = of_questions
    return means_in_memory(means, read.keys() - {"tokens"}, index)


def _of_samples(
    scores: np.ndarray, written: np.ndarray | None, question: np.ndarray, highest: float
) -> dict[str, np.ndarray]:
    """pass@k and maj@n of each question; in mathematics by the strict grader, whose extracted answers the files have.

    An answer passes where its score is the highest possible. `written` is as in `majority_right`, or None without
    maj@n; `question` has the number of each answer's question. Questions with different numbers of samples are refused
    by `read_question_means`; here n is the smallest.
    """
    right = scores >= highest
    counts = np.bincount(question)
    samples = int(counts.min())
    rights = np.minimum(np.bincount(question, weights=right).astype(int), samples)
    columns = {f"pass@{size}": pass_at(rights, samples, size) for size in sizes(samples)}
    if written is not None:
        columns[f"maj@{samples}"] = majority_right(question, written, right)
    return columns


def pass_at(right: np.ndarray, samples: int, size: int) -> np.ndarray:
    """Chance that at least one of k samples is right, from n samples with c right: 1 - C(n - c, k) / C(n, k).

    Unbiased (Chen et al., "Evaluating Large Language Models Trained on Code", 2021, arXiv 2107.03374, equation 1).
    `right` has c for each question, `samples` is n, and `size` is k.
    """
    wrong = samples - np.arange(samples + 1)
    # Logarithms: the coefficients themselves overflow from about a thousand samples on.
    none_right = np.where(
        wrong >= size, np.exp(_log_comb(np.maximum(wrong, size), size) - _log_comb(samples, size)), 0.0
    )
    return np.asarray(np.clip(1 - none_right, 0.0, 1.0)[right])


def _log_comb(total: np.ndarray | int, chosen: int) -> np.ndarray:
    return gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1)


def majority_right(question: np.ndarray, written: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether the answer that most samples of a question gave is right (self-consistency; Wang et al. 2022).

    All right answers count as the same answer, however they are written; wrong answers count as the same where they are
    written the same. A sample without an answer has no vote. Where answers tie, each has an equal share of the
    question.

    Parameters
    ----------
    question : array of int
        Number of each sample's question, from 0.
    written : array of int
        Numbers of the extracted answers, equal where answers are written the same; -1 where there was none.
    right : array of bool
        Whether each sample is right.

    Returns
    -------
    (questions,) array in [0, 1]; 0 where no sample has an answer.
    """
    questions = int(question.max()) + 1
    kind = np.where(right, 0, written + 1)
    votes = right | (written >= 0)
    kinds = int(kind.max()) + 1
    key, count = np.unique(question[votes].astype(np.int64) * kinds + kind[votes], return_counts=True)
    of_question, of_kind = key // kinds, key % kinds
    most = np.zeros(questions, dtype=np.int64)
    np.maximum.at(most, of_question, count)
    leading = count == most[of_question]
    tied = np.bincount(of_question[leading], minlength=questions)
    won = np.bincount(of_question[leading & (of_kind == 0)], minlength=questions)
    return won / np.maximum(tied, 1)


def metrics_of(means: pd.DataFrame, mode: str) -> pd.DataFrame:
    """Question means of one mode: one row per question, and one column per metric that this mode has."""
    metrics = metrics_in(means, mode)
    return means[metrics].loc[[mode]].droplevel("mode")


def answered(
    means: Mapping[int | None, pd.DataFrame | QuestionMeans], dataset: str, resamples: int, metrics: Metrics = DEFAULT
) -> dict[str, Answered]:
    """Question means of an arm's seeds, which answered the same questions, with their resamples, by mode."""
    of_modes, first = {}, next(iter(means.values()))
    tables = [columns_of(of_seed) for of_seed in means.values()]
    for mode in modes_of(first.index):
        names, rows = metrics_in(first, mode), rows_of(first.index, mode)
        values = np.stack([[columns[name][rows] for name in names] for columns in tables], axis=1)
        by_seed = resampled_seeds(values, dataset, resamples)
        of_modes[mode] = Answered(names, list(means), values, by_seed, [metrics.limits(name) for name in names])
    return of_modes


def paired_by_seed(arm: Answered, baseline: Answered) -> bool:
    """Whether two arms are subtracted seed by seed: they have the same seeds, or one arm has a single, common seed.

    A single seed says nothing about how much seeds differ, so only the same seed of the other arm is compared with it.
    """
    own, other = set(arm.seeds), set(baseline.seeds)
    return own == other or (min(len(own), len(other)) == 1 and bool(own & other))


def difference(arm: Answered, baseline: Answered) -> Answered:
    """Arm minus baseline for the seeds that both have.

    With the same seed both arms train on the same data in the same order, and both answer the same questions. Effects
    that the arms share cancel, and the interval is that of the difference alone.
    """
    seeds = [seed for seed in arm.seeds if seed in baseline.seeds]
    own, other = ([answers.seeds.index(seed) for seed in seeds] for answers in (arm, baseline))
    values = arm.values[:, own] - baseline.values[:, other]
    return Answered(arm.metrics, seeds, values, arm.by_seed[:, :, own] - baseline.by_seed[:, :, other], arm.limits)


def distribution_of(
    answers: Answered, dataset: str, reach: tuple[float, float] = (0.0, 1.0), seed_variance: SeedVariance | None = None
) -> Distribution:
    """Distribution of each metric's mean; `reach` has the ends of the range of a share, or of a contrast of shares."""
    return distribution(answers.values, answers.by_seed, dataset, limits_of(answers.limits, reach), seed_variance)


def limits_of(limits: list[Limits], reach: tuple[float, float] = (0.0, 1.0)) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value of each metric, or of its contrast whose value for a share lies in `reach`."""
    ends = [_within(metric_limits, reach) for metric_limits in limits]
    return np.array([low for low, _ in ends]), np.array([high for _, high in ends])


def _within(limits: Limits, reach: tuple[float, float]) -> tuple[float, float]:
    """Ends of the range of a contrast: the coefficients' sum times the lowest value, plus `reach` times the width."""
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
    """Estimates of one arm for each mode and metric, and whether its seeds differ more than those of other arms.

    `means` has the seed means of all arms by mode, from which the arm borrows; it is empty for the base model.
    """
    parts = []
    for mode, answers in of_modes.items():
        variance, flags = seed_part(means.get(mode), {arm: 1.0}, answers)
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
    """One arm minus another for each mode and metric, with tests against 0.

    `answers` has the answers of both arms, by arm and mode; `means` has the seed means of all arms, by mode.
    """
    parts = []
    for mode, of_arm in answers[arm].items():
        other = answers[against][mode]
        mean, flags = distribution_of_difference(of_arm, other, arm, against, dataset, means.get(mode))
        columns = tested_columns(mean, of_arm, study.confidence, study.equivalence_margin)
        parts.append(columns | {"mode": mode, "flagged_arms": flags})
    return rows_of_parts(parts, arm=arm, baseline=against, dataset=dataset)


def distribution_of_difference(
    own: Answered, other: Answered, arm: str, against: str, dataset: str, means: SeedMeans | None
) -> tuple[Distribution, np.ndarray]:
    """Distribution of each metric's mean of one arm minus another, and the flagged arms by metric.

    Arms with the same seeds are paired by seed. Otherwise, for each metric the shorter interval counts, of the seeds
    that both arms have, paired, and of all seeds of each arm. `means` has the seed means of all arms in this mode.
    """
    shared = [seed for seed in own.seeds if seed in other.seeds]
    by_pairs: Distribution | None = None
    if paired_by_seed(own, other) or len(shared) > 1:
        paired = difference(own, other)
        variance, flags = seed_part(means, {arm: 1.0, against: -1.0}, paired)
        by_pairs = distribution_of(paired, dataset, (-1.0, 1.0), variance)
        if paired_by_seed(own, other):
            return by_pairs, flags
    sample, other_sample = (
        Sample(answers.values, answers.by_seed, seed_part(means, {name: 1.0}, answers)[0])
        for name, answers in ((arm, own), (against, other))
    )
    flags = np.full(len(own.metrics), None) if means is None else means.flagged_in({arm: 1.0, against: -1.0})
    of_all = distribution_of_unpaired_difference(sample, other_sample, dataset, limits_of(own.limits, (-1.0, 1.0)))
    return of_all if by_pairs is None else shorter(by_pairs, of_all), flags


def seed_part(
    means: SeedMeans | None, coefficients: Mapping[str, float], answers: Answered
) -> tuple[SeedVariance | None, np.ndarray]:
    """Variance between seeds of a contrast of arms, None with one seed, and its flagged arms, by metric."""
    if means is None or len(answers.seeds) < 2:
        return None, np.full(len(answers.metrics), None)
    seeds = [seed for seed in answers.seeds if seed is not None]
    return means.of_contrast(coefficients, seeds), means.flagged_in(coefficients)
