"""Table across_datasets: summaries of each arm over all data sets and seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from reward_ablation.analysis.evaluation.answers import Answered, estimate_columns, limits_of, rows_of_parts
from reward_ablation.analysis.statistics.across import distribution_of_iqm, probability_of_improvement, redrawn
from reward_ablation.analysis.statistics.intervals import generator, percentile_interval
from reward_ablation.analysis.study_file import StudyFile

#: Columns of both statistics.
COLUMNS = ["metric", "estimate", "low", "high"]


def across_rows(
    study: StudyFile, arm: str, answers: dict[str, dict[str, Answered]], baseline: dict[str, dict[str, Answered]]
) -> list[pd.DataFrame]:
    """Rows of an arm for each mode that all data sets have; `answers` and `baseline` are by data set and mode."""
    tables = []
    for mode in next(iter(answers.values())):
        if all(mode in of_modes for of_modes in answers.values()):
            own, other = ([of_modes[mode] for of_modes in of_arm.values()] for of_arm in (answers, baseline))
            tables.append(rows_of_mode(arm, own, study.baseline, other, study.confidence).assign(mode=mode))
    return tables


def rows_of_mode(
    arm: str, parts: list[Answered], baseline: str, baseline_parts: list[Answered], confidence: float
) -> pd.DataFrame:
    """Interquartile mean of an arm, and its probability of improvement over the baseline if that is another arm.

    `parts` and `baseline_parts` have one entry for each data set.
    """
    metrics = [metric for metric in parts[0].metrics if all(metric in part.metrics for part in parts)]
    limits = [parts[0].limits[parts[0].metrics.index(metric)] for metric in metrics]
    seeds, datasets = len(parts[0].seeds), len(parts)
    fewest_seeds = min(seeds, len(baseline_parts[0].seeds))
    scores, resampled = stacked(parts, metrics)
    resampled = redrawn(resampled, generator("across", arm))
    values = [part.values[[part.metrics.index(metric) for metric in metrics]] for part in parts]
    iqm = estimate_columns(distribution_of_iqm(values, resampled, limits_of(limits)), metrics, confidence)
    parts_of_rows = [{name: iqm[name] for name in COLUMNS} | {"statistic": "iqm", "baseline": None}]
    if arm != baseline:
        others, resampled_others = stacked(baseline_parts, metrics)
        improved = probability_of_improvement(scores, others)
        resampled_others = redrawn(resampled_others, generator("across", baseline))
        low, high = percentile_interval(probability_of_improvement(resampled, resampled_others), confidence)
        # Where every seed is better, so is every resampled one; Clopper and Pearson's bound has the doubt of few seeds.
        doubt = proportion_confint(0, fewest_seeds, 1 - confidence, method="beta")[1]
        low, high = np.where(improved == 1, 1 - doubt, low), np.where(improved == 0, doubt, high)
        ends = np.minimum(low, improved), np.maximum(high, improved)
        columns = dict(zip(COLUMNS, (np.array(metrics, dtype=object), improved, *ends), strict=True))
        parts_of_rows.append(columns | {"statistic": "probability_of_improvement", "baseline": baseline})
    return rows_of_parts(parts_of_rows, arm=arm, seeds=seeds, datasets=datasets)


def stacked(parts: list[Answered], metrics: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Scores as (metrics, seeds, datasets), and over resampled questions as (resamples, metrics, seeds, datasets)."""
    places = [[part.metrics.index(metric) for metric in metrics] for part in parts]
    scores = [part.values[place].mean(axis=2) for part, place in zip(parts, places, strict=True)]
    resampled = [part.by_seed[:, place] for part, place in zip(parts, places, strict=True)]
    return np.stack(scores, axis=-1), np.stack(resampled, axis=-1)
