"""Means of runs over questions, from the means of each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

#: The mode that has several samples of a question.
SAMPLED = "sampled"

#: Means over questions by mode and metric, with the numbers of questions and answers.
OverQuestions = dict[tuple[str, str], tuple[float, int, int]]


class QuestionMeans(dict[str, np.ndarray]):
    """Columns of `answers.question_means` by name, with their index; faster than a table of pandas."""

    def __init__(self, columns: Mapping[str, np.ndarray], index: pd.Index):
        super().__init__(columns)
        self.index = index


def is_of_samples(metric: str) -> bool:
    """Whether a metric is of several samples of a question; no own metric's name has an @."""
    return "@" in metric


def metrics_in(means: pd.DataFrame | QuestionMeans, mode: str) -> list[str]:
    """Metrics that a mode has."""
    names = [str(name) for name in means if name != "answers"]
    return [name for name in names if mode == SAMPLED or not is_of_samples(name)]


def rows_of(index: pd.Index, mode: str) -> slice:
    """The slice with the rows of a mode; rows are sorted."""
    assert isinstance(index, pd.MultiIndex)
    modes = index.levels[0].tolist()
    place = modes.index(mode) if mode in modes else -1
    return slice(*np.searchsorted(index.codes[0], np.array([place, place + 1])))


def modes_of(index: pd.Index) -> list[str]:
    """The modes that have rows; rows are sorted."""
    assert isinstance(index, pd.MultiIndex)
    return index.levels[0][np.unique(index.codes[0])].tolist()


def over_questions(means: pd.DataFrame | QuestionMeans) -> OverQuestions:
    """Means over the questions of each mode."""
    means_of_modes, columns = {}, columns_of(means)
    for mode in modes_of(means.index):
        rows = rows_of(means.index, mode)
        size, answers = rows.stop - rows.start, int(columns["answers"][rows].sum())
        for name in metrics_in(means, mode):
            means_of_modes[mode, name] = mean_of(columns[name][rows]), int(size), answers
    return means_of_modes


def columns_of(means: pd.DataFrame | QuestionMeans) -> dict[str, np.ndarray]:
    """Columns as arrays. The index is dropped first: pandas would copy it for each column, slower than the numbers."""
    if isinstance(means, QuestionMeans):
        return means
    plain = means.set_axis(range(len(means)))
    return {str(name): column.to_numpy() for name, column in plain.items()}


def mean_of(values: np.ndarray) -> float:
    """Mean of the known values, which are added in the order in which pandas adds those of a column of a table."""
    known = values[~np.isnan(values)] if np.isnan(values).any() else values
    contiguous = values.strides[0] == values.itemsize
    total = known.sum() if contiguous else np.add.accumulate(known)[-1] if len(known) else 0.0
    return float(total / len(known)) if len(known) else np.nan


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
