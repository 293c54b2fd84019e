"""Stored answers of evaluated models, with their scores by the study's own metrics: read, checked, and averaged.

Tables of evaluated models, claims, signs of reward hacking, looks of a sequential study, pilots and `compare` read
answers here. So all of them judge all models on the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import SAMPLED, QuestionMeans, question_means, same_questions
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.statistics.limits import ROUNDING, Limits
from reward_ablation.analysis.study_file import BASE, StudyFile, StudyRun
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD
from reward_ablation.system.digests import digest_where_present, read_object
from reward_ablation.system.errors import StudyError

#: Columns that identify an answer.
LABELS = ["problem_id", "mode", "sample"]

#: Most pairs of data set and run whose question means are kept for a second reading: some 250 MB together.
RUNS_KEPT = 1000

#: Question means of an arm by seed, from the data set and the arm; the base model's seed is None.
Reader = Callable[[str, str], dict[int | None, QuestionMeans]]


def read_answers(
    study: StudyFile,
    root: Path,
    dataset: str,
    model: str,
    columns: Sequence[str],
    coded: Sequence[str] = (),
    kept: bool = False,
) -> pd.DataFrame:
    """Columns of the answers of a run's final model, or of "base", or (`kept`) of the models it kept, with their step.

    Columns of the study's own metrics are read from the scores. A question is left out for all models if any model's
    answer to it has no score. Columns in `coded` are read as categories where there is no file of scores.
    """
    of_answers, of_scores = (
        (study.kept_answers_file, study.kept_scores_file) if kept else (study.answers_file, study.scores_file)
    )
    file, scores_file = of_answers(dataset, model), of_scores(dataset, model)
    columns = [*(["step"] if kept else []), *columns]
    own = [name for name in columns if name in study.metrics]
    others = [name for name in columns if name not in own]
    if scores_file is None:
        return read_parquet(root / file, others, coded=coded)
    labels = [*LABELS, *(["step"] if kept else [])]
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
    own = tuple(metrics_of_study(study).own.items())
    return _without_score(dataset, tuple(root / file for file in files if file), own)


@cache
def _without_score(dataset: str, files: tuple[Path, ...], own: tuple[tuple[str, Limits], ...]) -> frozenset[str]:
    metrics = [name for name, _ in own]
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
        for name, limits in own:
            check_range(name, scores[name].to_numpy(), limits, file)
    if problems:
        print(f"{dataset}: {len(problems)} of {len(everything)} questions left out: an answer to them has no score")
    if problems and problems == everything:
        raise StudyError(
            f"{dataset}: each question has an answer without a score, so no question is left; see the logs of scoring"
        )
    return frozenset(problems)


def check_range(metric: str, scores: np.ndarray, limits: Limits, file: Path) -> None:
    """Refuse a score outside of its metric's range, which intervals and tests rely on. Rounding is no reason."""
    room = ROUNDING * max(1.0, *np.abs(limits)) if limits.finite else 0.0
    outside = scores[(scores < limits.low - room) | (scores > limits.high + room)]
    if len(outside):
        raise StudyError(
            f"{file}: metric {metric} gave {outside[0]:g}, outside of its range [{limits.low:g}, {limits.high:g}]; "
            f"correct evaluation.metrics.{metric}.range, which scores no answer again, or the metric"
        )


def means_reader(study: StudyFile, root: Path) -> Reader:
    """The reader of a study's answers. All models must have answered the questions of the base model, or first run."""
    first = BASE if study.has_base else study.runs[0].name
    metrics = metrics_of_study(study)

    @lru_cache(maxsize=RUNS_KEPT)
    def of_model(dataset: str, model: str) -> QuestionMeans:
        means = question_means(read_answers(study, root, dataset, model, metrics.columns, metrics.coded), metrics)
        path = root / study.answers_file(dataset, model)
        if model != first:
            check_questions(means, of_model(dataset, first), path)
        sampled = means[SAMPLED].answers if SAMPLED in means else np.zeros(1)
        if sampled.min() < sampled.max():
            raise StudyError(
                f"{path}: has {sampled.min()} sampled answers to some questions and {sampled.max()} to others; "
                "delete it and run the workflow again"
            )
        return means

    def read(dataset: str, arm: str) -> dict[int | None, QuestionMeans]:
        of_model(dataset, first)  # a damaged file of the first model is named first
        if arm == BASE:
            return {None: of_model(dataset, BASE)}
        return {run.seed: of_model(dataset, run.name) for run in study.runs_of(arm)}

    return read


def check_questions(means: QuestionMeans, first: QuestionMeans, path: Path) -> None:
    """Refuse answers to other questions than those of the first model, and other numbers of answers."""
    same = same_questions(means, first)
    if not same or any(not np.array_equal(means[mode].answers, first[mode].answers) for mode in first):
        raise StudyError(
            f"{path}: answers other questions than the study's first model did, or not as often; "
            "delete it and run the workflow again"
        )


def means_by_step(
    study: StudyFile, root: Path, read: Reader, run: StudyRun, dataset: str, last_step: int
) -> dict[int, QuestionMeans]:
    """Question means of a run by step: the base model, which must be there, at 0; the kept models; the final one."""
    base = read(dataset, BASE)[None]
    found = {0: base}
    if study.keep_models:
        metrics = metrics_of_study(study)
        kept = read_answers(study, root, dataset, run.name, metrics.columns, metrics.coded, kept=True)
        steps = kept["step"].to_numpy()
        for step in np.unique(steps):
            found[int(step)] = question_means(kept[steps == step], metrics)
            check_questions(found[int(step)], base, root / study.kept_answers_file(dataset, run.name))
    return {**found, last_step: read(dataset, run.arm)[run.seed]}


def check_answers(study: StudyFile, root: Path) -> None:
    """Refuse answers to another version of the problems, and of an earlier training of their run.

    Within one start, new code may prepare other problems. Records of earlier versions name neither, and are accepted.
    """
    prepared = {dataset: digest_where_present(root / study.questions[dataset]) for dataset in study.datasets}
    trained = {
        run.name: {digest_where_present(root / run.folder / name) for name in (RECORD, HIDDEN_RECORD)} - {None}
        for run in study.runs
    }
    for model in [*([BASE] if study.has_base else []), *trained]:
        for dataset in study.datasets:
            answers = root / study.answers_file(dataset, model)
            record = answers.with_suffix(".json")
            recorded = read_object(record, "delete it and run the workflow again") if record.is_file() else {}
            made_of = recorded.get("inputs", {})
            for name, digests, what in (
                ("problems", {prepared[dataset]} - {None}, "to another version of the problems"),
                ("run", trained.get(model), "of an earlier training of the run"),
            ):
                if digests and name in made_of and made_of[name] not in digests:
                    raise StudyError(f"{answers}: answers {what}; run the same command again")
