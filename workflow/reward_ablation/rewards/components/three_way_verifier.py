"""The GRPO guide's verifier: right, wrong, or no answer.

The preset `grpo_guide`, which repeats the guide's study, has it.
"""

from __future__ import annotations

from typing import Any

from pydantic import FiniteFloat

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading import Grade, grade_batch


def three_way_verifier(
    completions: list[Completion],
    answer: list[str],
    *,
    correct: FiniteFloat = 1.0,
    wrong: FiniteFloat = -1.0,
    missing: FiniteFloat = -0.5,
    **columns: Any,
) -> list[float | None]:
    r"""`correct` where the last box is right, `wrong` where it is not, `missing` where there is no box or an empty one.

    A box that is never closed is missing: the text was cut off before its answer. An answer that cannot be read or
    exceeds the grader's bounds is wrong. By default a missing answer costs less than a wrong answer.

    Notes
    -----
    Source: the verifier of the GRPO RL training guide. The comparison is this workflow's grader.
    """
    grades = grade_batch(completion_texts(completions), answer, "boxed")
    return [_score(grade, correct, wrong, missing) for grade in grades]


def _score(grade: Grade, correct: float, wrong: float, missing: float) -> float | None:
    if grade.status == "error":
        return None
    if grade.answer is None:
        return float(missing)
    return float(correct if grade.status == "correct" else wrong)
