"""rldynamics' format reward: words that look like steps.

The preset `rldynamics`, which repeats that system's study, has it.
"""

from __future__ import annotations

from typing import Any

from reward_ablation.rewards.completions import Completion, completion_texts

_WORDS = ("first", "second", "third")
_STEPS = ("step1", "step2")


def keyword_steps(completions: list[Completion], **columns: Any) -> list[float | None]:
    r"""min(1, 0.25 · keywords + 0.4 · box): words that look like steps, and a box.

    ``keywords`` counts which of ``first``, ``second`` and ``third`` stand anywhere in the text, and which of ``step1``
    and ``step2`` stand in it once its blanks are removed. Upper and lower case count alike, and each word counts once.
    ``box`` is 1 if ``\boxed`` stands in the text.

    This component can be hacked, for studies of reward hacking: ``step10`` counts as ``step1``, ``seconds`` as
    ``second``, and a box counts when it is empty or never closed.

    Notes
    -----
    Source: the format reward of rldynamics, exactly.
    """
    return [_score(text) for text in completion_texts(completions)]


def _score(text: str) -> float:
    lowered = text.lower()
    without_blanks = lowered.replace(" ", "")
    keywords = sum(word in lowered for word in _WORDS) + sum(step in without_blanks for step in _STEPS)
    return min(1.0, 0.25 * keywords + 0.4 * (r"\boxed" in text))
