"""The status of an answer, compared with a gold. Only the worker passes a parser; the calling process has none."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from reward_ablation.rewards.grading.bounds import is_too_costly
from reward_ablation.rewards.grading.comparison import Leaf, compare
from reward_ablation.rewards.grading.extraction import bare_gold
from reward_ablation.rewards.grading.normalisation import is_word, normalise
from reward_ablation.rewards.grading.units import units_differ

Status = Literal["correct", "wrong", "unparseable", "timeout", "error"]


class _TooCostly(Exception):
    pass


def settle(gold: str, answer: str, leaf: Leaf) -> Status | None:
    """Status of an answer.

    Parameters
    ----------
    gold : str
        The right answer: bare, in a box, or after ``####``.
    answer : str
        The extracted answer, of bounded length.
    leaf : callable (gold, answer) -> bool or None
        Compares expressions that need a parser (`comparison.compare`). It never gets a costly answer.

    Returns
    -------
    str or None
        None if `leaf` returned None.
    """
    expected, given = _normalised_gold(gold), normalise(answer)
    if not expected:
        return "error"
    if not given:
        return "unparseable"
    if units_differ(gold, answer):
        return "wrong"
    words = is_word(gold) or is_word(answer)

    def bounded(gold: str, answer: str) -> bool | None:
        if words:  # words are equal only if their strings are equal
            return False
        if is_too_costly(answer):
            raise _TooCostly
        return leaf(gold, answer)

    try:
        verdict = compare(expected, given, bounded)
    except _TooCostly:
        return "timeout"
    return None if verdict is None else "correct" if verdict else "wrong"


@lru_cache(maxsize=4096)
def _normalised_gold(gold: str) -> str:
    return normalise(bare_gold(gold))
