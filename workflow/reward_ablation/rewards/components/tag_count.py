"""Open-R1's tag count: partial credit for each of four tags."""

from __future__ import annotations

from typing import Any

from reward_ablation.rewards.completions import Completion, completion_texts

_TAGS = ("<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>")


def tag_count(completions: list[Completion], **columns: Any) -> list[float | None]:
    r"""0.25 for each of four tags that the text has exactly once, with the line breaks around it.

    The four are ``<think>\n``, ``\n</think>\n``, ``\n<answer>\n`` and ``\n</answer>``, in any order, with any text
    around them. Two tags that share one line break both count. Where the prompt itself ends in ``<think>``, the
    completion does not hold this tag and scores at most 0.75.

    Notes
    -----
    Source: ``tag_count_reward`` of Open-R1 (huggingface/open-r1), exactly. The format that goes with it is
    ``<think>\n…\n</think>\n<answer>\n…\n</answer>``.
    """
    return [0.25 * sum(text.count(tag) == 1 for tag in _TAGS) for text in completion_texts(completions)]
