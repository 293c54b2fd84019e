"""The CS 674 lab's correctness: the final number, right or wrong.

The preset `cs674`, which repeats the lab's study, has it.
"""

from __future__ import annotations

from typing import Any

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading import grade_batch
from reward_ablation.rewards.grading.extraction import extract


def signed_answer(completions: list[Completion], answer: list[str], **columns: Any) -> list[float | None]:
    """1 if the last number in the last ``<answer>`` tag after ``</think>`` equals the gold, else -1.

    A number is an integer, a decimal or a fraction (``7/2``), with its sign. A percent sign after the number and words
    around it are ignored. A text without a tag, or without a number in the tag, scores -1.

    Notes
    -----
    Source: the correctness reward of the CS 674 lab, with three mistakes mended: the sign was dropped (-5 was right for
    5); commas split a number (1,234 was 234); and the last number anywhere in the text counted, with or without tags.
    """
    contents = [(extract(text, "tag") or "").replace("%", " ") for text in completion_texts(completions)]
    statuses = [grade.status for grade in grade_batch(contents, answer, "last_number")]
    return [None if status == "error" else 1.0 if status == "correct" else -1.0 for status in statuses]
