"""The status of an answer as it was written, against a gold: with a parser in the worker, without one before it."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from reward_ablation.rewards.grading.bounds import is_too_costly
from reward_ablation.rewards.grading.comparison import Leaf, compare
from reward_ablation.rewards.grading.extraction import bare_gold
from reward_ablation.rewards.grading.normalisation import is_word, normalise
from reward_ablation.rewards.grading.units import units_differ

Status = Literal["correct", "wrong", "unparseable", "timeout", "error"]


def settle(gold: str, answer: str, leaf: Leaf) -> Status | None:
    """Status of an answer.

    Parameters
    ----------
    gold : str
        Bare, in a box, or after ``####``.
    answer : str
        As extracted, of bounded length.
    leaf : callable (gold, answer) -> bool or None
        Compares what takes a parser (`comparison.compare`).

    Returns
    -------
    str or None
        None where `leaf` said so.
    """
    expected, given = _normalised_gold(gold), normalise(answer)
    if not expected:
        return "error"
    if not given:
        return "unparseable"
    if units_differ(gold, answer):
        return "wrong"
    try:
        verdict = compare(expected, given, _never if is_word(gold) or is_word(answer) else _bounded(leaf))
    except _TooCostly:
        return "timeout"
    return None if verdict is None else "correct" if verdict else "wrong"


class _TooCostly(Exception):
    pass


def _bounded(leaf: Leaf) -> Leaf:
    """A leaf that no costly answer reaches."""

    def bounded(gold: str, answer: str) -> bool | None:
        if is_too_costly(answer):
            raise _TooCostly
        return leaf(gold, answer)

    return bounded


def _never(gold: str, answer: str) -> bool:
    """Leaf for words: what is not the same word is another."""
    return False


@lru_cache(maxsize=4096)
def _normalised_gold(gold: str) -> str:
    return normalise(bare_gold(gold))
