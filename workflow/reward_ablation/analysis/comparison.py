"""Difference of two studies whose models answered the same questions.

Users call `compare` in scripts of their own. No rule does, since a rule knows one study alone::

    from reward_ablation.analysis.comparison import compare
    from reward_ablation.analysis.results import load

    compare(load("results/new"), load("results/old"))
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import Answered, answered, difference_rows
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import QuestionMeans, seed_means
from reward_ablation.analysis.evaluation.stored_answers import Reader, means_reader
from reward_ablation.analysis.evaluation.tables import runs_of_dataset
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.results import Results
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import BASE
from reward_ablation.system.errors import StudyError

#: Columns of `compare`, in their order.
COMPARED = [
    *("dataset", "mode", "metric", "arm", "other_arm", "estimate", "low", "high", "seeds", "questions", "p", "p_holm"),
    *("evaluation", "flagged_arms"),
]


def compare(one: Results, other: Results, arms: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Arms of one study minus arms of another, which answered the same questions.

    So a study can be compared with one of another model, of other package versions, or of last month. Differences are
    paired by question, and by seed as in the table `paired_differences`. Intervals borrow from the arms of both. A
    question that either study leaves out, because an answer has no score, is left out of both: see `questions`.

    Parameters
    ----------
    one, other : Results
        The studies, as `load` gives them.
    arms : mapping of str to str, optional
        The arm of `other` that each arm of `one` is compared with. By default all arms that have the same name in both.
        The base models are compared where both studies have one.

    Returns
    -------
    DataFrame
        `estimate`, `low` and `high` are in units of the metric; the interval has the confidence of `one`. `p_holm` is
        corrected over the arms, without the base models, of one data set, mode and metric. `evaluation` says whether
        both studies have the `same` settings of evaluation, prompt and own metrics, or whether they `differ`. It is
        `unknown` where a study is imported, as no file has its settings.
        `flagged_arms` has `one` or `other` before an arm's name. The other columns are as in `paired_differences`.

    Raises
    ------
    StudyError
        The studies share no data set or no arm, or their questions, metrics or ranges of metrics are not the same.
    """
    names = {arm: arm for arm in one.study.arm_names if arm in other.study.arm_names} if arms is None else dict(arms)
    for results, asked in ((one, names), (other, names.values())):
        if unknown := [arm for arm in asked if arm not in results.study.arm_names]:
            known = ", ".join(results.study.arm_names)
            raise StudyError(f"{results.folder}: unknown arm {unknown[0]!r}; arms here: {known}")
    datasets = [dataset for dataset in one.study.datasets if dataset in other.study.datasets]
    if not names or not datasets:
        what = "arm" if datasets else "data set"
        raise StudyError(f"{one.folder} and {other.folder} have no {what} of one name; name them alike, or give `arms`")
    readers = means_reader(one.study, one.folder), means_reader(other.study, other.folder)
    base = {BASE: BASE} if one.study.has_base and other.study.has_base else {}
    parts = [of_dataset((one, other), readers, base | names, dataset) for dataset in datasets]
    return pd.concat(parts, ignore_index=True)[COMPARED]


def of_dataset(
    both: tuple[Results, Results], readers: tuple[Reader, Reader], arms: Mapping[str, str], dataset: str
) -> pd.DataFrame:
    """Rows of `compare` for one data set. `readers` give means of questions by seed."""
    one, other = both
    check_questions(one, other, dataset)
    readers = on_shared_questions(both, readers, dataset)
    by_run = [runs_of_dataset(each.study, dataset, read) for each, read in zip(both, readers, strict=True)]
    of_one, of_other = (seed_means(rows, each.study) for each, rows in zip(both, by_run, strict=True))
    means = {mode: joined_means(of_one[mode], of_other[mode]) for mode in of_one if mode in of_other}
    resamples = min(each.study.bootstrap for each in both)
    # The second folder in a path of answers or scores is named by the key of the settings.
    keys = [[files[dataset].split("/")[1] for files in (of.study.answers, of.study.scores) if files] for of in both]
    known = not (one.study.imported or other.study.imported)
    evaluation = ("same" if keys[0] == keys[1] else "differ") if known else "unknown"
    parts = []
    for arm, against in arms.items():
        own, theirs = (
            answered(read(dataset, name), dataset, resamples, metrics_of_study(each.study))
            for each, read, name in zip(both, readers, (arm, against), strict=True)
        )
        if any(mode not in theirs or own[mode].metrics != theirs[mode].metrics for mode in own):
            raise StudyError(f"{dataset}: the studies have other metrics or modes; evaluate both alike")
        check_limits(both, own, theirs)
        names = f"one {arm}", f"other {against}"
        rows = difference_rows(*names, {names[0]: own, names[1]: theirs}, dataset, one.study, means)
        parts.append(rows.assign(arm=arm, other_arm=against))
    table = pd.concat(parts, ignore_index=True).assign(evaluation=evaluation)
    of_base = table["arm"] == BASE  # a family of its own: it is no arm
    p_holm = table.groupby(["mode", "metric", of_base])["p"].transform(lambda p: holm(p.to_numpy()))
    return table.assign(p_holm=p_holm)


def check_questions(one: Results, other: Results, dataset: str) -> None:
    """Refuse studies whose questions or right answers of a data set are not the same."""
    columns = ["id", "question", "answer"]
    texts = [read_parquet(each.folder / each.study.questions[dataset], columns) for each in (one, other)]
    if not texts[0].equals(texts[1]):
        raise StudyError(
            f"{dataset}: {one.folder} and {other.folder} do not have the same questions and right answers; only "
            "answers to the same questions can be paired"
        )


def on_shared_questions(
    both: tuple[Results, Results], readers: tuple[Reader, Reader], dataset: str
) -> tuple[Reader, Reader]:
    """Readers of the questions that both studies judge; all models of a study have those of its first model."""
    first, second = (
        next(iter(read(dataset, each.study.evaluated_names[0]).values()))
        for each, read in zip(both, readers, strict=True)
    )
    shared = {mode: np.intersect1d(first[mode].problems, second[mode].problems) for mode in first if mode in second}
    if not all(map(len, shared.values())):
        raise StudyError(
            f"{dataset}: {both[0].folder} and {both[1].folder} have no scored question in common; "
            "see the logs of scoring"
        )

    def of_shared(read: Reader) -> Reader:
        def read_shared(dataset: str, arm: str) -> dict[int | None, QuestionMeans]:
            return {
                seed: {mode: each.only(shared[mode]) if mode in shared else each for mode, each in means.items()}
                for seed, means in read(dataset, arm).items()
            }

        return read_shared

    return of_shared(readers[0]), of_shared(readers[1])


def check_limits(both: tuple[Results, Results], own: Mapping[str, Answered], theirs: Mapping[str, Answered]) -> None:
    """Refuse a metric that has another range in the other study: its values are in other units."""
    for mode, answers in own.items():
        for name, *limits in zip(answers.metrics, answers.limits, theirs[mode].limits, strict=True):
            if limits[0] != limits[1]:
                ranges = " and ".join(
                    f"[{low:g}, {high:g}] in {each.folder}" for (low, high), each in zip(limits, both, strict=True)
                )
                raise StudyError(f"{name}: its range is {ranges}; give it one range, and the same scores, in both")


def joined_means(one: SeedMeans, other: SeedMeans) -> SeedMeans:
    """Seed means in the same metrics of the arms of two studies; their names begin with `one` or `other`."""
    if len(one.limits) != len(other.limits):
        raise StudyError("the studies have other metrics; evaluate both alike")
    seeds = sorted({*one.seeds, *other.seeds})
    values = np.full((len(one.limits), len(one.arms) + len(other.arms), len(seeds)), np.nan)
    values[:, : len(one.arms), [seeds.index(seed) for seed in one.seeds]] = one.values
    values[:, len(one.arms) :, [seeds.index(seed) for seed in other.seeds]] = other.values
    arms = [*(f"one {arm}" for arm in one.arms), *(f"other {arm}" for arm in other.arms)]
    return SeedMeans(arms, seeds, values, one.limits, one.questions, one.lends and other.lends)
