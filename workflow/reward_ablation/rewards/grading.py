r"""Whether a completion's answer is right, and if that cannot be told, why.

Most answers are settled here: equal strings after normalisation, or two rational numbers compared
exactly. The rest goes to math-verify in a process of its own (`supervisor`), which is started when
the first such answer comes and never for one that is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from reward_ablation.rewards.bounds import is_malformed, is_too_costly
from reward_ablation.rewards.extraction import extract
from reward_ablation.rewards.normalisation import comparison_key, exact_value, is_prose, normalise
from reward_ablation.rewards.supervisor import math_worker

Status = Literal["correct", "wrong", "unparseable", "timeout", "error"]


@dataclass(frozen=True)
class Grade:
    """Verdict on one completion.

    Attributes
    ----------
    status : {"correct", "wrong", "unparseable", "timeout", "error"}
        - correct, wrong: the answer was read and compared with the gold.
        - unparseable: there is no answer in the asked format, or none that can be read.
        - timeout: comparing it would take, or took, more than the bounds on time and memory.
        - error: no verdict, through no fault of the answer (an empty gold, a worker that was killed twice).
    answer : str or None
        The answer as it was written.
    """

    status: Status
    answer: str | None


def grade(completion: str, gold: str, answer_format: str = "boxed") -> Grade:
    r"""Extract the answer of a completion and compare it with the gold.

    Parameters
    ----------
    completion : str
        What a model wrote; hostile input.
    gold : str
        The right answer, bare or in a ``\boxed{}``.
    answer_format : {"boxed", "hash", "final", "tag", "last_number"}
        Where the answer stands (`extraction.extract`).

    Returns
    -------
    Grade

    Raises
    ------
    StudyError
        An unknown answer format.
    RuntimeError
        math-verify is needed and cannot be started.
    """
    return grade_answer(extract(completion, answer_format), gold)


def grade_answer(answer: str | None, gold: str) -> Grade:
    """Compare an extracted answer with the gold; None is unparseable."""
    if answer is None or is_malformed(answer):
        return Grade("unparseable", answer)
    return Grade(_compare(normalise(answer), _normalised_gold(gold)), answer)


def _compare(answer: str, gold: str) -> Status:
    """Status of a normalised answer."""
    if not gold:
        return "error"
    if not answer:
        return "unparseable"
    if answer == gold or comparison_key(answer) == comparison_key(gold):
        return "correct"
    value, gold_value = exact_value(answer), exact_value(gold)
    if value is not None and gold_value is not None:
        return "correct" if value == gold_value else "wrong"
    if is_prose(answer) or is_prose(gold):  # words are compared as words
        return "wrong"
    if ("%" in answer) != ("%" in gold):  # math-verify takes 5% for 5
        return "wrong"
    if is_too_costly(answer):
        return "timeout"
    return _by_math_verify(gold, answer)


@lru_cache(maxsize=4096)
def _normalised_gold(gold: str) -> str:
    return normalise(extract(gold, "boxed") or gold)


@lru_cache(maxsize=8192)
def _by_math_verify(gold: str, answer: str) -> Status:
    return math_worker.judge(gold, answer)  # type: ignore[return-value]
