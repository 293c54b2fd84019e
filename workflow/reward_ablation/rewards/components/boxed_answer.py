"""rldynamics' correctness: the last box against the gold, as strings.

The preset `rldynamics`, which repeats that system's study, has it. In other studies `correctness` compares values.
"""

from __future__ import annotations

from typing import Any

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading.extraction import after_thinking, last_box
from reward_ablation.rewards.math_paper import equivalent


def boxed_answer(completions: list[Completion], answer: list[str], **columns: Any) -> list[float | None]:
    r"""1 if the last box and the gold are the same string after both are normalised, else 0.

    Strings are compared, not values: 1,000 is not 1000, and 0.25 is not 1/4. `correctness` compares values. A box is
    read as in `extraction.extract`, except that only the last of several boxes in a row counts, even if it is empty.
    The score is None where the gold is empty.

    Notes
    -----
    Source: the correctness reward of rldynamics, with the string normalisation of the MATH paper (Hendrycks et al.
    2021, arXiv 2103.03874), `math_paper`. One mistake is mended: rldynamics does not normalise the gold. There 75 of
    the 500 golds of MATH-500 score 0 even if a completion boxes them letter by letter.
    """
    return [_score(text, gold) for text, gold in zip(completion_texts(completions), answer, strict=True)]


def _score(text: str, gold: str) -> float | None:
    if not gold.strip():
        return None
    content = last_box(after_thinking(text))
    return float(content is not None and equivalent(content, last_box(gold) or gold))
