"""Means of questions over their samples (accuracy, pass@k, length), of runs over questions, and of arms by seed.

`stored_answers` calls it for each model's file of answers, and `power` and `budget` for those of a pilot. Estimates,
differences, claims and the signs of reward hacking start from these means. It reads no file; `stored_answers` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammaln

from reward_ablation.analysis.evaluation.metrics import Metrics, metrics_of_study
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.config.sections.questions import sizes

#: The mode that has several samples of a question.
SAMPLED = "sampled"

#: The metrics of mathematics, which a study has unless it says otherwise.
DEFAULT = Metrics()


class ModeMeans(NamedTuple):
    """Results of one model on one data set in one mode."""

    metrics: list[str]  # those of several samples, pass@k and maj@n, only in the mode "sampled"
    values: np.ndarray  # (metrics, questions), means over samples
    problems: np.ndarray  # (questions,) identifiers, in ascending order
    answers: np.ndarray  # (questions,) numbers of answers

    def of(self, metric: str) -> np.ndarray:
        """Values of a metric by question."""
        return np.asarray(self.values[self.metrics.index(metric)])

    def only(self, problems: np.ndarray) -> ModeMeans:
        """The same results on some of the questions."""
        kept = np.isin(self.problems, problems)
        return self._replace(values=self.values[:, kept], problems=self.problems[kept], answers=self.answers[kept])


#: Results of one model on one data set, by mode.
QuestionMeans = dict[str, ModeMeans]

#: Seed means of one data set by mode.
SeedMeansByMode = dict[str, SeedMeans]


def measured(answers: pd.DataFrame, metrics: Metrics = DEFAULT) -> dict[str, np.ndarray]:
    """Verdicts and scores as numbers, by metric, and whether the two graders of the strict answer differ.

    All answers count, also those in which no answer was found, so that accuracy_strict - accuracy_math_paper =
    correct_only_strict - correct_only_math_paper.
    """
    columns = {name: answers[name].to_numpy() for name in metrics.sources.values() if name in answers}
    if metrics.mathematics:
        strict, math_paper = (columns[f"correct_{grader}"].astype(bool) for grader in ("strict", "math_paper"))
        columns["graders_differ"] = strict != math_paper
        columns["correct_only_strict"], columns["correct_only_math_paper"] = strict & ~math_paper, ~strict & math_paper
    return {name: columns[source].astype(float) for name, source in metrics.sources.items()}


def question_means(answers: pd.DataFrame, metrics: Metrics = DEFAULT) -> QuestionMeans:
    """Average the samples of each question, in each mode that has answers."""
    columns = measured(answers, metrics)
    (modes, mode_names), (problems, names) = sorted_codes(answers["mode"]), sorted_codes(answers["problem_id"])
    found = {}
    for number, mode in enumerate(mode_names):
        rows = np.flatnonzero(modes == number)
        present = np.bincount(problems[rows], minlength=len(names)) > 0
        if not len(rows):
            continue
        question = (np.cumsum(present) - 1)[problems[rows]]
        counts = np.bincount(question)
        means = {name: np.bincount(question, weights=values[rows]) / counts for name, values in columns.items()}
        if mode == SAMPLED and metrics.passed is not None:
            column, passes = metrics.passed
            written = pd.factorize(answers["answer"].array[rows])[0] if metrics.mathematics else None
            means |= of_samples(passes(answers[column].to_numpy()[rows]), written, question)
        found[mode] = ModeMeans([*means], np.stack([*means.values()]), names[present], counts)
    return found


def sorted_codes(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Rank of each text among the sorted texts, and the sorted texts."""
    values = column.array if isinstance(column.dtype, pd.CategoricalDtype) else pd.Categorical(column)
    order = np.argsort(texts := values.categories.to_numpy(dtype=object))
    return np.argsort(order)[values.codes], texts[order]


def same_questions(one: QuestionMeans, other: QuestionMeans) -> bool:
    """Whether two models answered the same questions in the same modes."""
    return one.keys() == other.keys() and all(
        one[mode].problems.tolist() == other[mode].problems.tolist() for mode in one
    )


def of_samples(right: np.ndarray, written: np.ndarray | None, question: np.ndarray) -> dict[str, np.ndarray]:
    """pass@k of each question, in mathematics with maj@n; n is the same for all, as `means_reader` checks.

    By sample: `right`, whether it passes; `written`, the number of its answer's text; `question`, of its question.
    """
    samples = int(np.bincount(question).min())
    rights = np.minimum(np.bincount(question, weights=right).astype(int), samples)
    columns = {f"pass@{size}": pass_at(rights, samples, size) for size in sizes(samples)}
    if written is not None:
        columns[f"maj@{samples}"] = majority_right(question, written, right)
    return columns


def is_of_samples(metric: str) -> bool:
    """Whether a metric is of several samples of a question; no own metric's name has an @."""
    return "@" in metric


def pass_at(right: np.ndarray, samples: int, size: int) -> np.ndarray:
    """Chance that at least one of k = `size` samples is right, from n with c right: 1 - C(n - c, k) / C(n, k).

    Unbiased (Chen et al., "Evaluating Large Language Models Trained on Code", 2021, arXiv 2107.03374, equation 1).
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
    """Whether the answer that most samples of a question gave is right (self-consistency; Wang et al. 2022), in [0, 1].

    All right answers are one answer; wrong ones are told apart by `written`, where -1 has no vote. Answers that tie
    have equal shares of the question; it is 0 where no sample has an answer.
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


def runs_means(runs: Iterable[tuple[str, int | None, int | None, QuestionMeans]], dataset: str) -> pd.DataFrame:
    """Means over questions: one row for each run, mode and metric. The base model has no seed."""
    rows = [
        (arm, seed, step, dataset, mode, metric, float(value), len(of_mode.problems), int(of_mode.answers.sum()))
        for arm, seed, step, means in runs
        for mode, of_mode in means.items()
        for metric, value in zip(of_mode.metrics, of_mode.values.mean(axis=1), strict=True)
    ]
    names = ["arm", "seed", "step", "dataset", "mode", "metric", "value", "questions", "answers"]
    return pd.DataFrame(rows, columns=names).astype({"seed": "Int64", "step": "Int64"})


def seed_means(rows: pd.DataFrame, study: StudyFile) -> SeedMeansByMode:
    """Seed means of all arms by mode, from rows of `runs_means` for the final models on one data set."""
    trained = rows[rows["seed"].notna()]
    return {str(mode): _of_mode(of_mode, study) for mode, of_mode in trained.groupby("mode", sort=False)}


def lent_to_declared(means: SeedMeans, study: StudyFile, arm: str, against: str) -> SeedMeans:
    """Seed means that a declared comparison may borrow from: not of other arms that were added after its declaration.

    An arm that is added when the results are known could else move the answer to the question.
    """
    later = [name for name in study.added_arms if name not in (arm, against)]
    return means.without(later) if later else means


def _of_mode(rows: pd.DataFrame, study: StudyFile) -> SeedMeans:
    metrics, seeds = list(rows["metric"].unique()), sorted(map(int, rows["seed"].unique()))
    values = np.full((len(metrics), len(study.arms), len(seeds)), np.nan)
    axes = {"metric": metrics, "arm": study.arm_names, "seed": seeds}
    index = tuple(pd.Index(labels).get_indexer(rows[name]) for name, labels in axes.items())
    values[index] = rows["value"]
    of_study = metrics_of_study(study)
    limits = [of_study.limits(metric) for metric in metrics]
    lends = study.seed_variance == "moderated"
    return SeedMeans(study.arm_names, seeds, values, limits, int(rows["questions"].max()), lends)
