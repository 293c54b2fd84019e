"""The status of an answer: by what both texts say, or by a function that compares expressions."""

from __future__ import annotations

from typing import Literal

from reward_ablation.rewards.grading.comparison import Leaf, compare
from reward_ablation.rewards.grading.extraction import bare_gold
from reward_ablation.rewards.grading.normalisation import is_word, normalise
from reward_ablation.rewards.grading.units import units_differ

Status = Literal["correct", "wrong", "unparseable", "timeout", "error"]


def settle(gold: str, answer: str, leaf: Leaf) -> Status | None:
    """Status of an extracted answer; None if only `leaf`, which compares expressions, could decide and returned None.

    The gold is bare, in a box, or after ``####``.
    """
    expected, given = normalise(bare_gold(gold)), normalise(answer)
    if not expected:
        return "error"
    if not given:
        return "unparseable"
    if units_differ(gold, answer):
        return "wrong"
    words = is_word(gold) or is_word(answer)  # equal only if their strings are equal
    verdict = compare(expected, given, (lambda *_: False) if words else leaf)
    return None if verdict is None else "correct" if verdict else "wrong"
