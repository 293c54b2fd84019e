"""Scoring of stored answers by functions with a reward's signature, in batches that never cut a group.

The command of the rule `score` calls it, and `reward-ablation import` for components that score imported completions. A
group is a problem's answers by one model, greedy or sampled. A metric may compare them, as a reward does in training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from reward_ablation.system.errors import StudyError

#: Answers in one call of a metric; more where a call would otherwise cut a group. The number is a free choice.
BATCH = 256
#: Seconds between two lines of progress.
REPORT_EVERY = 10.0
#: Columns that identify an answer.
LABELS = ["problem_id", "mode", "sample"]


def score_answers(answers: pd.DataFrame, problems: pd.DataFrame, metrics: Mapping[str, Callable]) -> pd.DataFrame:
    """Scores of answers: `LABELS`, step where the answers have it, and a column per metric; NaN without a score."""
    # `problems` is a prepared set, whose columns the metrics receive: `(completions, **columns) -> list of float or
    # None`.
    columns = problems.set_index("id", drop=False)
    missing = set(answers["problem_id"]) - set(columns.index)
    if missing:
        raise StudyError(
            f"answers to {sorted(missing)[0]}, which the evaluation set does not have; run the evaluation again"
        )
    labels = [name for name in ("step", *LABELS) if name in answers]
    scores = answers[labels].reset_index(drop=True)
    for name, function in metrics.items():
        scores[name] = _scores_of(name, function, answers, columns)
    return scores


def _calls(answers: pd.DataFrame) -> Iterator[np.ndarray]:
    """Rows of the answers in each call of a metric."""
    # The answers to a problem by one model (`step`) in one mode are a group, as in training: they are in one call, and
    # no call has two groups of a problem.
    rows = answers[[name for name in ("step", "mode", "problem_id") if name in answers]].reset_index(drop=True)
    for _, of_model in rows.groupby([*rows.columns[:-1]], sort=False):
        group = of_model.groupby("problem_id", sort=False).ngroup()
        call = (group.value_counts(sort=False).sort_index().cumsum() - 1) // BATCH
        for _, of_call in group.groupby(group.map(call)):
            yield of_call.index.to_numpy()


def _scores_of(name: str, function: Callable, answers: pd.DataFrame, problems: pd.DataFrame) -> np.ndarray:
    """Scores of all answers by one metric; prints its progress."""
    reported = time.monotonic()
    scored = np.full(len(answers), np.nan)
    unknown = done = 0
    for rows in _calls(answers):
        batch = answers.iloc[rows]
        scores = function(completions=batch["completion"].tolist(), **columns_of(problems.loc[batch["problem_id"]]))
        unknown += sum(score is None for score in scores)
        scored[rows] = np.array(scores, dtype=float)
        done += len(batch)
        if done == len(answers) or time.monotonic() - reported >= REPORT_EVERY:
            reported = time.monotonic()
            without = f", {unknown} without a score" if unknown else ""
            print(f"{name}: {done:,} of {len(answers):,} answers{without}", flush=True)
    return scored


def columns_of(problems: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns of problems as training passes them to reward functions: `problem_id` and the columns of the data."""
    columns = {str(name): problems[name].tolist() for name in problems}
    return {"problem_id": columns.pop("id"), **columns}
