"""Evaluation over training: the base model, the models that runs kept during training, and the final models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import QuestionMeans, question_means, same_questions
from reward_ablation.analysis.evaluation.seed_means import evaluation_of_runs, over_questions
from reward_ablation.analysis.evaluation.stored_answers import means_of_answers, read_answers, read_kept_answers
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.system.errors import StudyError


def learning_curves(study: StudyFile, root: Path, last_steps: dict[str, int]) -> list[pd.DataFrame]:
    """Parts of table learning_curves: as evaluation_by_run, for each step that has a model; none without kept models.

    Step 0 is the base model in every run, so that each run's rows are a whole curve. `last_steps` has the last step of
    each run, by folder.
    """
    parts = []
    for dataset in study.datasets if study.keep_models else []:
        base = means_of_answers(study, root, dataset, BASE)
        at_0 = over_questions(base)
        steps, models = [], []
        for run in study.runs:
            by_step = means_by_step(study, run, dataset, root, last_steps[run.folder], base)
            curve = {0: at_0} | {step: over_questions(means) for step, means in by_step.items()}
            steps += [step for step, means in curve.items() for _ in means]
            models += [(run.arm, run.seed, means) for means in curve.values()]
        parts.append(evaluation_of_runs(models, dataset).assign(step=steps))
    return parts


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
