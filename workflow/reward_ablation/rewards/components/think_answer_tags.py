"""The CS 674 lab's format reward: one pair of think tags, one pair of answer tags, nothing else.

The preset `cs674`, which repeats the lab's study, has it; docs/coming-from/cs674.md says what the lab is.
"""

from __future__ import annotations

from typing import Any

from pydantic import FiniteFloat

from reward_ablation.rewards.completions import Completion, completion_texts

_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def think_answer_tags(
    completions: list[Completion], *, well_formed: FiniteFloat = 1.25, malformed: FiniteFloat = -1.0, **columns: Any
) -> list[float | None]:
    """`well_formed` if the text is exactly ``<think>…</think><answer>…</answer>``, one pair of each, else `malformed`.

    Nothing may stand before, between or after the pairs, not even a line break. Any text or none may stand inside them.
    Where the prompt itself ends in ``<think>``, or the tokenizer treats the tags as special tokens, the completion does
    not hold them and is always malformed. With the scores 1 and 0 the mean is the share of well-formed completions.
    Every completion gets a score.

    Notes
    -----
    Source: the format reward of the CS 674 lab, exactly.
    """
    return [float(well_formed if _is_exact(text) else malformed) for text in completion_texts(completions)]


def _is_exact(text: str) -> bool:
    """Whether each tag stands once, the text starts and ends with the outer tags, and the inner two are adjacent."""
    return (
        all(text.count(tag) == 1 for tag in _TAGS)
        and text.startswith("<think>")
        and "</think><answer>" in text
        and text.endswith("</answer>")
    )
