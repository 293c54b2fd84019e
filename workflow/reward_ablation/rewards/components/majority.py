"""Agreement with the group's most frequent answer.

It is a reward without golds.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, Literal

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading.exact import exact_value
from reward_ablation.rewards.grading.extraction import extract
from reward_ablation.rewards.grading.grader import MAX_HERE, is_malformed
from reward_ablation.rewards.grading.normalisation import comparison_key, normalise
from reward_ablation.rewards.groups import rows_of_groups


def majority(
    completions: list[Completion],
    problem_id: list[str],
    *,
    answer_format: Literal["boxed", "hash", "final", "tag", "last_number"] = "boxed",
    **columns: Any,
) -> list[float | None]:
    """1 where no other answer to the problem is more frequent in the group than the completion's answer, else 0.

    The gold is not read. If several answers are equally frequent, completions with any of them score 1: where all
    answers differ, all score 1. A completion without an answer, or with one that cannot be read, scores 0 and has no
    vote; so do all completions of a group without answers. The only completion of a group scores 1 if it has an answer.

    Parameters
    ----------
    answer_format : str
        Where the answer stands in a completion; see `extraction.extract`.

    Notes
    -----
    Source: TTRL, Zuo et al. 2025, arXiv 2504.16084, whose estimated label is the most frequent answer; a tie has one
    label there. Two answers are the same if they are the same rational number (0.5 and 1/2), or the same text after the
    grader's normalisation. Answers that only math-verify finds equal, such as two forms of one polynomial, count as
    different: to compare all pairs of a group by math-verify would have no useful bound on time.
    """
    answers = [_form(extract(text, answer_format)) for text in completion_texts(completions)]
    scores: list[float | None] = [0.0] * len(answers)
    for rows in rows_of_groups(problem_id):
        votes = Counter(answer for row in rows if (answer := answers[row]) is not None)
        for row in rows:
            answer = answers[row]
            scores[row] = float(answer is not None and votes[answer] == max(votes.values()))
    return scores


def _form(answer: str | None) -> Fraction | str | None:
    """What equal answers share; of one too long to evaluate, its text. None for a missing or unreadable answer."""
    if answer is None or is_malformed(answer):
        return None
    if len(answer) > MAX_HERE:
        return answer
    normalised = normalise(answer)
    value = exact_value(normalised)
    return (comparison_key(normalised) or None) if value is None else value
