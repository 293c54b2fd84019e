"""Answers of evaluated models as they are stored, with their scores by the study's own metrics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import QuestionMeans, question_means
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.system.errors import StudyError

#: Columns that identify an answer.
LABELS = ["problem_id", "mode", "sample"]


def read_answers(
    study: StudyFile, root: Path, dataset: str, model: str, columns: Sequence[str], coded: Sequence[str] = ()
) -> pd.DataFrame:
    """Columns of the answers of a run's final model, or of "base"; own metrics among them are read from the scores.

    A question is left out for all models if a metric has no score for any model's answer to it: all models are judged
    on the same questions. Columns in `coded` are read as categories.
    """
    answers, scores = study.answers_file(dataset, model), study.scores_file(dataset, model)
    return _read(study, root, dataset, answers, scores, columns, coded)


def means_of_answers(study: StudyFile, root: Path, dataset: str, model: str) -> QuestionMeans:
    """Question means of a run's final model, or of "base"."""
    metrics = metrics_of_study(study)
    return question_means(read_answers(study, root, dataset, model, metrics.columns, metrics.coded), metrics)


def read_kept_answers(
    study: StudyFile, root: Path, dataset: str, run: str, columns: Sequence[str], coded: Sequence[str] = ()
) -> pd.DataFrame:
    """As `read_answers`, for the models that a run kept during training, with the column step."""
    answers, scores = study.kept_answers_file(dataset, run), study.kept_scores_file(dataset, run)
    return _read(study, root, dataset, answers, scores, ["step", *columns], coded)


def _read(
    study: StudyFile,
    root: Path,
    dataset: str,
    file: str,
    scores_file: str | None,
    columns: Sequence[str],
    coded: Sequence[str],
) -> pd.DataFrame:
    own = [name for name in columns if name in study.metrics]
    others = [name for name in columns if name not in own]
    if scores_file is None:
        return read_parquet(root / file, others, coded=coded)
    labels = [*LABELS, *(["step"] if "step" in others else [])]
    answers = read_parquet(root / file, list(dict.fromkeys([*labels, *others])))
    scores = read_parquet(root / scores_file, [*labels, *own])
    if not answers[labels].equals(scores[labels]):
        raise StudyError(f"{root / scores_file}: scores of other answers; delete it and run the workflow again")
    known = ~answers["problem_id"].isin(without_score(study, root, dataset))
    return pd.concat([answers[others], scores[own]], axis=1)[[*columns]][known]


def without_score(study: StudyFile, root: Path, dataset: str) -> frozenset[str]:
    """Problems of a data set to which some model has an answer without a score; prints how many there are."""
    if not study.metrics:
        return frozenset()
    models = [BASE, *dict.fromkeys(run.name for run in study.runs)]
    files = [study.scores_file(dataset, model) for model in models]
    if study.keep_models:
        files += [study.kept_scores_file(dataset, model) for model in models[1:]]
    return _without_score(dataset, tuple(root / file for file in files if file), tuple(study.metrics))


@cache
def _without_score(dataset: str, files: tuple[Path, ...], metrics: tuple[str, ...]) -> frozenset[str]:
    problems: set[str] = set()
    everything: set[str] = set()
    for file in files:
        scores = read_parquet(file, ["problem_id", *metrics])
        everything.update(scores["problem_id"])
        unknown = scores[[*metrics]].isna()
        problems.update(scores.loc[unknown.any(axis=1), "problem_id"])
        if len(scores) and unknown.all().any():
            name = next(metric for metric in metrics if unknown[metric].all())
            raise StudyError(f"{file}: metric {name} gave no answer a score; see its log")
    if problems:
        print(f"{dataset}: {len(problems)} of {len(everything)} questions left out: an answer to them has no score")
    if problems and problems == everything:
        raise StudyError(
            f"{dataset}: each question has an answer without a score, so no question is left; see the logs of scoring"
        )
    return frozenset(problems)
