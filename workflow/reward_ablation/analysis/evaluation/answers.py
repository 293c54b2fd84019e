"""Accuracy, agreement of the graders, format adherence and length from the answers of evaluated models."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reward_ablation.analysis.statistics.intervals import bootstrap_means, generator, percentile_interval

#: Columns of the answers that metrics are made of.
ANSWER_COLUMNS = ["correct_strict", "correct_lenient", "correct_math_paper", "format", "tokens", "truncated"]

#: Metric: the column of `measured` that it is the mean of.
METRICS = {
    "accuracy_strict": "correct_strict",
    "accuracy_lenient": "correct_lenient",
    "accuracy_math_paper": "correct_math_paper",
    "graders_differ": "graders_differ",
    "correct_only_strict": "correct_only_strict",
    "correct_only_math_paper": "correct_only_math_paper",
    "format": "format",
    "tokens": "tokens",
    "truncated": "truncated",
}


def measured(answers: pd.DataFrame) -> pd.DataFrame:
    """Answers as numbers, one column a metric, with where the two graders of the strict answer differ.

    All answers count, also those where nothing was found to compare and both graders say no: so the
    rates say by how much an accuracy would change with the other grader, and their parts add up,
    accuracy_strict - accuracy_math_paper = correct_only_strict - correct_only_math_paper.

    Parameters
    ----------
    answers : DataFrame
        With the columns `ANSWER_COLUMNS`.
    """
    strict, math_paper = answers["correct_strict"].astype(bool), answers["correct_math_paper"].astype(bool)
    columns = answers[ANSWER_COLUMNS].assign(
        graders_differ=strict != math_paper,
        correct_only_strict=strict & ~math_paper,
        correct_only_math_paper=~strict & math_paper,
    )
    return columns[list(METRICS.values())].astype(float)


def question_means(answers: pd.DataFrame) -> pd.DataFrame:
    """Average the samples of each question.

    Returns
    -------
    Rows (mode, problem_id), sorted; columns: answers (their number) and the metrics.
    """
    labels = [answers["mode"], answers["problem_id"]]
    grouped = measured(answers).groupby(labels, sort=True)
    means = grouped.mean().set_axis(list(METRICS), axis="columns")
    means.insert(0, "answers", grouped.size())
    return means


def evaluation_of_run(means: pd.DataFrame, arm: str, seed: int | None, dataset: str) -> pd.DataFrame:
    """One row per mode: the means over questions. The base model has no seed."""
    grouped = means.groupby(level="mode")
    rows = grouped[list(METRICS)].mean()
    rows.insert(0, "answers", grouped["answers"].sum())
    rows.insert(0, "questions", grouped.size())
    rows = rows.reset_index()
    return rows.assign(arm=arm, seed=pd.array([seed] * len(rows), dtype="Int64"), dataset=dataset)


def seeds_by_questions(means: list[pd.DataFrame], mode: str) -> np.ndarray:
    """Question means of several seeds, which answered the same questions, as a (metrics, seeds, questions) array."""
    return np.stack([seed.loc[mode, list(METRICS)].to_numpy().T for seed in means], axis=1)


def estimates(values: np.ndarray, labels: dict[str, str], resamples: int, confidence: float) -> pd.DataFrame:
    """Mean and bootstrap interval of each metric.

    Parameters
    ----------
    values : (metrics, seeds, questions) array
    labels : dict
        Columns that say what is estimated. They also decide the random numbers.
    """
    rng = generator(*labels.values())
    low, high = percentile_interval(bootstrap_means(values, resamples, rng), confidence)
    _, seeds, questions = values.shape
    rows = {"metric": list(METRICS), "estimate": values.mean(axis=(1, 2)), "low": low, "high": high}
    return pd.DataFrame(rows).assign(**labels, seeds=seeds, questions=questions)


def evaluation_of_arm(
    means: list[pd.DataFrame], arm: str, dataset: str, resamples: int, confidence: float
) -> pd.DataFrame:
    """Estimates of one arm, from the question means of its seeds, for each mode and metric."""
    modes = means[0].index.unique("mode")
    return pd.concat(
        estimates(
            seeds_by_questions(means, mode), {"arm": arm, "dataset": dataset, "mode": mode}, resamples, confidence
        )
        for mode in modes
    )


def difference_to_baseline(
    means: dict[int, pd.DataFrame],
    baseline_means: dict[int, pd.DataFrame],
    labels: dict[str, str],
    resamples: int,
    confidence: float,
) -> pd.DataFrame:
    """Arm minus baseline for each mode and metric, paired by seed and question.

    Both train on the same data in the same order under one seed, and answer the same questions:
    what these have in common cancels, and the interval is that of the difference alone.

    Parameters
    ----------
    means, baseline_means : dict
        Question means by seed; seeds that only one of them has are left out.
    labels : dict
        arm, baseline and dataset.
    """
    seeds = [seed for seed in means if seed in baseline_means]
    differences = [means[seed] - baseline_means[seed] for seed in seeds]
    modes = differences[0].index.unique("mode")
    return pd.concat(
        estimates(seeds_by_questions(differences, mode), {**labels, "mode": mode}, resamples, confidence)
        for mode in modes
    )
