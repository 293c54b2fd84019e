"""Stored answers of evaluated models, with their scores by the study's own metrics: read, checked, and averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import SAMPLED, QuestionMeans, question_means, same_questions
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import BASE, StudyFile, StudyRun
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.digests import digest_where_present, read_object
from reward_ablation.system.errors import StudyError

#: Columns that identify an answer.
LABELS = ["problem_id", "mode", "sample"]

#: Runs whose question means are kept for a second reading: some 250 MB for each data set.
RUNS_KEPT = 1000

#: Question means of an arm by seed, from the data set and the arm; the base model's seed is None.
Reader = Callable[[str, str], dict[int | None, QuestionMeans]]


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
    runs = list(dict.fromkeys(run.name for run in study.runs))
    files = [study.scores_file(dataset, model) for model in [*([BASE] if study.has_base else []), *runs]]
    if study.keep_models:
        files += [study.kept_scores_file(dataset, model) for model in runs]
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


def means_reader(study: StudyFile, root: Path) -> Reader:
    """The reader of a study's answers."""
    first = BASE if study.has_base else study.runs[0].name  # the model that the others are compared with
    base = {dataset: read_question_means(study, root, dataset, first, None) for dataset in study.datasets}

    @lru_cache(maxsize=RUNS_KEPT)
    def of_run(dataset: str, run: str) -> QuestionMeans:
        return read_question_means(study, root, dataset, run, base[dataset])

    def read(dataset: str, arm: str) -> dict[int | None, QuestionMeans]:
        if arm == BASE:
            return {None: base[dataset]}
        return {run.seed: of_run(dataset, run.name) for run in study.runs_of(arm)}

    return read


def read_question_means(
    study: StudyFile, root: Path, dataset: str, model: str, base: QuestionMeans | None
) -> QuestionMeans:
    """Question means of one evaluated model, which must have answered the questions of the base model."""
    path, means = root / study.answers_file(dataset, model), means_of_answers(study, root, dataset, model)
    if base is not None and not (
        same_questions(means, base) and all(np.array_equal(means[mode].answers, base[mode].answers) for mode in base)
    ):
        raise StudyError(
            f"{path}: answers other questions than the base model did, or not as often; "
            "delete it and run the workflow again"
        )
    sampled = means[SAMPLED].answers if SAMPLED in means else np.zeros(1)
    if sampled.min() < sampled.max():
        raise StudyError(
            f"{path}: has {sampled.min()} sampled answers to some questions and {sampled.max()} to others; "
            "delete it and run the workflow again"
        )
    return means


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


def check_answers(study: StudyFile, root: Path) -> None:
    """Refuse answers to another version of the problems than the prepared one, and of an earlier training of their run.

    In one start of Snakemake, new code may prepare other problems after the evaluations were planned. Records of
    earlier versions name neither the problems nor the run, and are accepted.
    """
    prepared = {dataset: digest_where_present(root / study.questions[dataset]) for dataset in study.datasets}
    trained = {run.name: digest_where_present(root / run.folder / RECORD) for run in study.runs}
    for model in [*([BASE] if study.has_base else []), *trained]:
        for dataset in study.datasets:
            answers = root / study.answers_file(dataset, model)
            record = answers.with_suffix(".json")
            recorded = read_object(record, "delete it and run the workflow again") if record.is_file() else {}
            made_of = recorded.get("inputs", {})
            for name, digest, what in (
                ("problems", prepared[dataset], "to another version of the problems"),
                ("run", trained.get(model), "of an earlier training of the run"),
            ):
                if digest is not None and made_of.get(name, digest) != digest:
                    raise StudyError(f"{answers}: answers {what}; run the same command again")
