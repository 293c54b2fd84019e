"""Whether a completion's answer is right; if this cannot be decided, the status says why.

Reward components, evaluation and `data.problems` call it. Most answers are decided in this process. The rest goes to
math-verify in another (`math_worker`), which can be killed where an answer keeps it busy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reward_ablation.rewards.grading.comparison import Status, settle
from reward_ablation.rewards.grading.extraction import extract
from reward_ablation.rewards.grading.math_worker import math_worker

# Bounds for what this process does with a text (normalisation, exact values). Within them the parser may take long.
MAX_CHARACTERS = 2000
MAX_NESTING = 20  # the deepest answer of MATH has 3
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_BRACKET = re.compile(r"\\?[{}]|\\[lr]angle|[()\[\]]")
MAX_HERE = 300  # longest answer that is compared here, where nothing can stop it; the longest gold of MATH has 159


@dataclass(frozen=True)
class Grade:
    """Verdict on one completion, with the answer as it was written.

    - correct, wrong: the answer was read and compared with the gold.
    - unparseable: there is no answer in the requested format, or the answer cannot be read.
    - timeout: the comparison exceeded, or would exceed, the limits on time and memory.
    - error: there is no verdict, through no fault of the answer (an empty gold, a worker that was killed twice).
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
        The right answer, bare, in a ``\boxed{}``, or after ``####``.
    answer_format : {"boxed", "hash", "final", "tag", "last_number"}
        Where the answer stands (`extraction.extract`).

    Raises
    ------
    StudyError
        The answer format is unknown.
    RuntimeError
        math-verify is needed and cannot be started.
    """
    return grade_answer(extract(completion, answer_format), gold)


def grade_batch(completions: Sequence[str], golds: Sequence[str], answer_format: str = "boxed") -> list[Grade]:
    """Grade many completions, as `grade` does; the golds are in the order of the completions."""
    return grade_answers([extract(completion, answer_format) for completion in completions], golds)


def grade_answer(answer: str | None, gold: str) -> Grade:
    """Compare an extracted answer with the gold; the answer None is unparseable."""
    return grade_answers([answer], [gold])[0]


def grade_answers(answers: Sequence[str | None], golds: Sequence[str]) -> list[Grade]:
    """Compare extracted answers with their golds."""
    statuses = [_without_parser(answer, gold) for answer, gold in zip(answers, golds, strict=True)]
    rows = zip(statuses, golds, answers, strict=True)
    pairs = [(gold, answer) for status, gold, answer in rows if status is None and answer is not None]
    judged = iter(math_worker.judge(pairs))  # a status for each None, in order
    return [*map(Grade, (next(judged) if status is None else status for status in statuses), answers)]


def is_malformed(answer: str) -> bool:
    """Whether a text is too long, nested too deeply, or has unbalanced braces, control characters or broken UTF-8."""
    if len(answer) > MAX_CHARACTERS or _CONTROL.search(answer):
        return True
    depth = braces = 0
    for bracket in _BRACKET.findall(answer):
        step = 1 if bracket[-1] in "([{" or bracket == r"\langle" else -1
        depth += step
        braces += step if bracket in "{}" else 0  # other brackets need not balance: [0, 1)
        if depth > MAX_NESTING or braces < 0:
            return True
    return braces != 0


def _without_parser(answer: str | None, gold: str) -> Status | None:
    """Status of an answer that needs no parser; None if the answer needs the parser."""
    if answer is None or is_malformed(answer):
        return "unparseable"
    if len(answer) > MAX_HERE and answer != gold:  # equal texts need no comparison
        return None
    return settle(gold, answer, lambda gold, answer: None)  # None: only a parser can compare
