"""Correctness of the answer."""

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

    Parameters
    ----------
    completions : list of str or of messages
    answer : list of str
        The golds.
    answer_format : str
        Where the answer stands in a completion.

    Returns
    -------
    list of {0.0, 1.0, None}
        An answer that is missing, cannot be read or costs more to compare than the grader's bounds
        scores 0.0: it is the completion's own doing, and None would let a model step out of the
        loss by writing such an answer. None only where the grader has no verdict through no fault of
        the completion (status error).
    """
    grades = grade_batch(completion_texts(completions), answer, answer_format)
    return [None if grade.status == "error" else float(grade.status == "correct") for grade in grades]
