"""Variance components from a pilot: the answers of finished runs, of the same study or of another study."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import is_of_samples, measured, question_means
from reward_ablation.analysis.evaluation.stored_answers import read_answers
from reward_ablation.analysis.study_file import StudyFile, StudyRun, read_study
from reward_ablation.design.variances import Components, Pair, estimate_components
from reward_ablation.study.primary import Question
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.errors import StudyError


def finished_runs(study: StudyFile, root: Path, dataset: str) -> list[StudyRun]:
    """Runs of a study that have a record, answers to a data set, and scores of these answers if any are needed."""
    finished = []
    for run in study.runs:
        files = [f"{run.folder}/{RECORD}", study.answers_file(dataset, run.name), study.scores_file(dataset, run.name)]
        if all((root / file).is_file() for file in files if file):
            finished.append(run)
    return finished


def pilot_of(study: StudyFile, root: Path, question: Question, source: str) -> Components:
    """Variance components of a metric, from the finished runs in a study's folder.

    `study` and `root` are the pilot's, and `question` is that of the study to plan. Raises StudyError if the pilot
    lacks the data set or the metric, if no arm has two finished seeds, or if runs answered different questions.
    """
    runs = finished_runs(study, root, question.dataset) if question.dataset in study.datasets else []
    if question.dataset not in study.datasets:
        raise StudyError(f"{source}: has no data set {question.dataset}; its data sets: {', '.join(study.datasets)}")
    values: dict[str, dict[int, np.ndarray]] = {}
    noise: dict[str, list[float]] = {}
    questions, samples = None, 1
    for run in runs:
        answers = _answers_of(study, root, question, run, source)
        questions = answers.questions if questions is None else questions
        if answers.questions != questions:
            raise StudyError(f"{source}: its runs answered different questions; run the workflow there again")
        values.setdefault(run.arm, {})[run.seed] = answers.values
        noise.setdefault(run.arm, []).append(answers.sample)
        samples = answers.samples
    sample = {arm: float(np.mean(of_arm)) for arm, of_arm in noise.items()}
    limits = metrics_of_study(study).limits(question.metric)
    return estimate_components(values, samples, sample, limits, _pairs(study, question, values), source)


def read_pilot(folder: Path, question: Question, source: str) -> Components:
    """Variance components from the folder of another study. Raises StudyError if it is none, or as `pilot_of`."""
    if not (folder / "study.json").is_file():
        raise StudyError(f"pilot: {source}: not a study's results folder, because it has no study.json; name another")
    return pilot_of(read_study(folder / "study.json"), folder, question, source)


def _pairs(study: StudyFile, question: Question, arms: Iterable[str]) -> list[Pair]:
    """Pairs of the question whose arms the pilot has; if there are none, the pilot's own primary pairs."""
    known = set(arms)
    planned = [(contrast.arm, contrast.against) for contrast in question.contrasts]
    own = [(contrast.arm, contrast.against) for contrast in study.primary.contrasts]
    return [pair for pair in planned if known.issuperset(pair)] or [pair for pair in own if known.issuperset(pair)]


class _RunAnswers(NamedTuple):
    """Means of a run's answers by question, and the mean variance of a single sample about them."""

    questions: list[str]
    values: np.ndarray
    sample: float
    samples: int


def _answers_of(study: StudyFile, root: Path, question: Question, run: StudyRun, source: str) -> _RunAnswers:
    metrics = metrics_of_study(study)
    answers = read_answers(study, root, question.dataset, run.name, metrics.columns)
    answers = answers[answers["mode"] == question.mode]
    of_mode = question_means(answers, metrics).get(question.mode)
    if of_mode is None or question.metric not in of_mode.metrics:
        raise StudyError(f"{source}: has no metric {question.metric} in mode {question.mode}; name another pilot")
    samples, sample = int(of_mode.answers[0]), 0.0
    if samples > 1 and not is_of_samples(question.metric):
        values = pd.Series(measured(answers, metrics)[question.metric], answers.index)
        sample = float(values.groupby(answers["problem_id"]).var().mean())
    return _RunAnswers(of_mode.problems.tolist(), of_mode.of(question.metric), sample, samples)
