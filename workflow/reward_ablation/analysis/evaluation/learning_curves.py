"""Evaluation over training: the base model, the models that runs kept during training, and the final models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import answered, evaluation_rows
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import QuestionMeans, question_means, same_questions
from reward_ablation.analysis.evaluation.seed_means import (
    OverQuestions,
    SeedMeansByMode,
    evaluation_of_runs,
    over_questions,
    seed_means,
)
from reward_ablation.analysis.evaluation.stored_answers import means_of_answers, read_answers, read_kept_answers
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.system.errors import StudyError

#: Runs whose question means by step are kept for the second reading: some 100 MB with eight kept models.
RUNS_KEPT = 32

#: Gives the question means of a run by step, from the run's folder.
Reader = Callable[[str], dict[int, QuestionMeans]]


def learning_curves(study: StudyFile, root: Path, last_steps: dict[str, int]) -> list[pd.DataFrame]:
    """Parts of table learning_curves: as evaluation_by_arm, for each step that has a model; none without kept models.

    Step 0 is the base model in every arm, so that each arm's rows are a whole curve. `last_steps` has the last step of
    each run, by folder.
    """
    parts, metrics = [], metrics_of_study(study)
    for dataset in study.datasets if study.keep_models else []:
        base = means_of_answers(study, root, dataset, BASE)
        of_base = answered({None: base}, dataset, study.bootstrap, metrics)
        at_0 = evaluation_rows(of_base, BASE, dataset, study.confidence, {})
        read = reader(study, dataset, root, last_steps, base)
        all_means = seed_means_by_step(study, dataset, read)
        for arm in study.arm_names:
            parts.append(at_0.assign(arm=arm, step=0))
            by_seed = {run.seed: read(run.folder) for run in study.runs_of(arm)}
            for step in sorted(set.intersection(*(set(of_seed) for of_seed in by_seed.values()))):
                means: dict[int | None, QuestionMeans] = {seed: of_seed[step] for seed, of_seed in by_seed.items()}
                answers = answered(means, dataset, study.bootstrap, metrics)
                rows = evaluation_rows(answers, arm, dataset, study.confidence, all_means[step])
                parts.append(rows.assign(step=step))
    return parts


def reader(study: StudyFile, dataset: str, root: Path, last_steps: dict[str, int], base: QuestionMeans) -> Reader:
    """A function that reads `means_by_step`, and caches what it read last."""
    runs = {run.folder: run for run in study.runs}

    @lru_cache(maxsize=RUNS_KEPT)
    def read(folder: str) -> dict[int, QuestionMeans]:
        return means_by_step(study, runs[folder], dataset, root, last_steps[folder], base)

    return read


def seed_means_by_step(study: StudyFile, dataset: str, read: Reader) -> dict[int, SeedMeansByMode]:
    """Seed means of all arms, by step and mode. Runs are read one after the other."""
    runs: dict[int, list[tuple[str, int | None, OverQuestions]]] = {}
    for run in study.runs:
        for step, means in read(run.folder).items():
            runs.setdefault(step, []).append((run.arm, run.seed, over_questions(means)))
    return {step: seed_means(evaluation_of_runs(of_step, dataset), study) for step, of_step in runs.items()}


def means_by_step(
    study: StudyFile,
    run: StudyRun,
    dataset: str,
    root: Path,
    last_step: int,
    base: QuestionMeans,
) -> dict[int, QuestionMeans]:
    """Question means of a run by step; all models of the run must have answered the questions of the base model."""
    metrics = metrics_of_study(study)
    answers = answers_by_step(study, run, dataset, root, last_step, metrics.columns, metrics.coded)
    means = {step: question_means(rows, metrics) for step, rows in answers.items()}
    for step, of_step in means.items():
        if not same_questions(of_step, base):
            of_file = study.answers_file if step == last_step else study.kept_answers_file
            raise StudyError(
                f"{root / of_file(dataset, run.name)}: answers other questions than the base model did; delete it and "
                "run the workflow again"
            )
    return means


def answers_by_step(
    study: StudyFile,
    run: StudyRun,
    dataset: str,
    root: Path,
    last_step: int,
    columns: list[str],
    coded: Sequence[str] = (),
) -> dict[int, pd.DataFrame]:
    """Columns of the answers of a run's kept models and of its final model, by optimiser step in ascending order."""
    answers = {}
    if study.keep_models:
        kept = read_kept_answers(study, root, dataset, run.name, columns, coded)
        steps = kept["step"].to_numpy()
        answers = {int(step): kept[steps == step] for step in np.unique(steps)}
    answers[last_step] = read_answers(study, root, dataset, run.name, columns, coded)
    return answers
