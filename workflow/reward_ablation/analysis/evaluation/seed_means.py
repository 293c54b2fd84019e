"""Means of runs over questions, and those of all arms by seed, from which the intervals of each arm borrow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import QuestionMeans
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile

#: Seed means of one data set by mode.
SeedMeansByMode = dict[str, SeedMeans]

#: Means over questions by mode and metric, with the numbers of questions and answers.
OverQuestions = dict[tuple[str, str], tuple[float, int, int]]


def over_questions(means: QuestionMeans) -> OverQuestions:
    """Means over the questions of each mode."""
    return {
        (mode, metric): (float(value), len(of_mode.problems), int(of_mode.answers.sum()))
        for mode, of_mode in means.items()
        for metric, value in zip(of_mode.metrics, of_mode.values.mean(axis=1), strict=True)
    }


def seed_means(rows: pd.DataFrame, study: StudyFile) -> SeedMeansByMode:
    """Seed means of all arms by mode.

    `rows` are those of `evaluation_of_runs` for the runs of one data set, and of one step where there are several. Rows
    without a seed, which are those of the base model, are left out.
    """
    trained = rows[rows["seed"].notna()]
    return {str(mode): _of_mode(of_mode, study) for mode, of_mode in trained.groupby("mode", sort=False)}


def _of_mode(rows: pd.DataFrame, study: StudyFile) -> SeedMeans:
    metrics, seeds = list(rows["metric"].unique()), sorted(map(int, rows["seed"].unique()))
    values = np.full((len(metrics), len(study.arms), len(seeds)), np.nan)
    axes = {"metric": metrics, "arm": study.arm_names, "seed": seeds}
    places = [rows[name].map({label: place for place, label in enumerate(of)}) for name, of in axes.items()]
    values[tuple(place.to_numpy(dtype=int) for place in places)] = rows["value"]
    of_study = metrics_of_study(study)
    limits = [of_study.limits(metric) for metric in metrics]
    lends = study.seed_variance == "moderated"
    return SeedMeans(study.arm_names, seeds, values, limits, int(rows["questions"].max()), lends)


def evaluation_of_runs(runs: Sequence[tuple[str, int | None, OverQuestions]], dataset: str) -> pd.DataFrame:
    """Means over questions: one row for each run, mode and metric, with the run's arm and seed.

    The base model has no seed.
    """
    sizes = [len(of_run) for _, _, of_run in runs]
    modes, metrics = zip(*(labels for _, _, of_run in runs for labels in of_run), strict=True)
    values, questions, answers = zip(*(found for _, _, of_run in runs for found in of_run.values()), strict=True)
    rows = {"metric": metrics, "value": values, "mode": modes, "questions": questions, "answers": answers}
    arms, seeds = (np.repeat(np.array([run[place] for run in runs], dtype=object), sizes) for place in (0, 1))
    return pd.DataFrame(rows).assign(arm=arms, seed=pd.array(seeds, dtype="Int64"), dataset=dataset)
