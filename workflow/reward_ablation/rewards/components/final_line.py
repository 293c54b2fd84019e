"""simple_grpo's reward: a last line with the answer.

The preset `simple_grpo`, which repeats that system's study, has it.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import FiniteFloat

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading import Status, grade_batch

_NUMBER = r"[-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
_FINAL_LINE = re.compile(rf"[ \t]*Final:[ \t]*{_NUMBER}")


def final_line(
    completions: list[Completion],
    answer: list[str],
    *,
    correct: FiniteFloat = 1.0,
    well_formed: FiniteFloat = 0.1,
    malformed: FiniteFloat = 0.0,
    **columns: Any,
) -> list[float | None]:
    """`correct` if the last line gives the right number, `well_formed` if it gives a wrong number, else `malformed`.

    A well-formed text ends in a line ``Final: <number>``. The number is an integer or a decimal, possibly with a sign
    and thousands separators. Only white space may follow it: no unit and no full stop. A right number before the end of
    the text scores `malformed`.

    Notes
    -----
    Source: the reward of simple_grpo, with two mistakes mended: a gold with a comma could never be right (79 problems
    of GSM8K's training set, 14 of its test set), and 42.0 was not 42. Here the grader compares values.
    """
    lines = [_final_line(text) for text in completion_texts(completions)]
    grades = grade_batch(lines, answer, "final")
    return [
        _score(grade.status, correct, well_formed) if line else float(malformed)
        for line, grade in zip(lines, grades, strict=True)
    ]


def _score(status: Status, correct: float, well_formed: float) -> float | None:
    return None if status == "error" else float(correct if status == "correct" else well_formed)


def _final_line(text: str) -> str:
    """The last line if it is well-formed, else an empty text."""
    line = text.rstrip().rpartition("\n")[2]
    return line if _FINAL_LINE.fullmatch(line) else ""
