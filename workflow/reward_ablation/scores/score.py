"""Score stored answers by functions with a reward's signature."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from reward_ablation.system.errors import StudyError

#: Most answers in one call of a metric.
BATCH = 256

#: Seconds between two lines of progress.
REPORT_EVERY = 10.0

#: Columns that identify an answer.
LABELS = ["problem_id", "mode", "sample"]


def score_answers(answers: pd.DataFrame, problems: pd.DataFrame, metrics: Mapping[str, Callable]) -> pd.DataFrame:
    """Scores of answers: `LABELS`, step where the answers have it, and a column per metric; NaN without a score.

    Parameters
    ----------
    answers : DataFrame
        One row per answer: `LABELS` and completion.
    problems : DataFrame
        A prepared set. The functions receive its columns: id, question and so on.
    metrics : mapping of str to callable
        Functions `(completions, **columns) -> list of float or None`, by name.

    Raises
    ------
    StudyError
        The problem of an answer is not in the set, or a function raises it.
    """
    columns = problems.set_index("id", drop=False)
    missing = set(answers["problem_id"]) - set(columns.index)
    if missing:
        raise StudyError(
            f"answers to {sorted(missing)[0]}, which the evaluation set does not have; run the evaluation again"
        )
    labels = [name for name in ("step", *LABELS) if name in answers]
    scores = answers[labels].reset_index(drop=True)
    for name, function in metrics.items():
        scores[name] = np.array(list(_scores_of(name, function, answers, columns)), dtype=float)
    return scores


def _scores_of(name: str, function: Callable, answers: pd.DataFrame, problems: pd.DataFrame) -> Iterator[float | None]:
    """Scores of all answers by one metric; prints its progress."""
    reported = time.monotonic()
    unknown = 0
    for first in range(0, len(answers), BATCH):
        batch = answers.iloc[first : first + BATCH]
        scores = function(completions=batch["completion"].tolist(), **columns_of(problems.loc[batch["problem_id"]]))
        unknown += sum(score is None for score in scores)
        yield from scores
        done = first + len(batch)
        if done == len(answers) or time.monotonic() - reported >= REPORT_EVERY:
            reported = time.monotonic()
            without = f", {unknown} without a score" if unknown else ""
            print(f"{name}: {done:,} of {len(answers):,} answers{without}", flush=True)


def columns_of(problems: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns of problems as training passes them to reward functions: `problem_id` and the columns of the data."""
    columns = {str(name): problems[name].tolist() for name in problems}
    return {"problem_id": columns.pop("id"), **columns}
