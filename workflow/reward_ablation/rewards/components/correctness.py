"""Correctness of the answer, by value.

Most shipped studies have it. It asks the grader that evaluation asks, so that a reward and the accuracy agree.
"""

from __future__ import annotations

from typing import Any, Literal

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading import grade_batch


def correctness(
    completions: list[Completion],
    answer: list[str],
    *,
    answer_format: Literal["boxed", "hash", "final", "tag", "last_number"] = "boxed",
    **columns: Any,
) -> list[float | None]:
    """1 where the extracted answer equals the gold, else 0.

    An answer that is missing, cannot be read or exceeds the grader's bounds scores 0.0 and not None: with None, a model
    could take a completion out of the loss by writing such an answer. None is for the grader's status `error`, through
    no fault of the answer, such as an empty gold.

    Parameters
    ----------
    answer_format : str
        Where the answer stands in a completion; see `extraction.extract`.
    """
    grades = grade_batch(completion_texts(completions), answer, answer_format)
    return [None if grade.status == "error" else float(grade.status == "correct") for grade in grades]
