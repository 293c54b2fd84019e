"""The form of the answer, whatever its content.

The default study has it beside `correctness`, to tell form from content.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading.extraction import after_thinking, answer_end, extract, marker_spans

#: White space, punctuation, the end of a formula (`$`, `\)`, `\]`) and Markdown stars. Chinese and Japanese sentences
#: end in 。 or ！: "最大值为 $\boxed{5}$。"
_CLOSING = re.compile(r"(?:[\s.!*$\u3002\uff01]|\\[)\]])*")


def answer_format(
    completions: list[Completion], *, format: Literal["boxed", "hash", "final", "tag"] = "boxed", **columns: Any
) -> list[float | None]:
    r"""1 where the answer's marker is there exactly once, holds an answer, and ends the text; else 0.

    Only the text after the last ``</think>`` counts. A second marker would be a way to hedge, and text after the answer
    is either idle or another answer. Therefore only white space, full stops, exclamation marks, Markdown stars and the
    end of a formula may follow the box, the tag, or the line of ``####`` or ``Final:``.

    Parameters
    ----------
    format : {"boxed", "hash", "final", "tag"}
        The marker: ``\boxed{}`` (or ``\fbox{}``), ``#### N``, a line ``Final: N``, ``<answer>N</answer>``.

    Notes
    -----
    Source: this workflow, for the answer formats of MATH (``boxed``), GSM8K (``hash``), simple_grpo (``final``) and
    DeepSeek-R1 (``tag``; arXiv 2501.12948).
    """
    return [float(_well_formed(after_thinking(text), format)) for text in completion_texts(completions)]


def _well_formed(text: str, format: str) -> bool:
    markers = marker_spans(text, format)
    if len(markers) != 1 or extract(text, format) is None:
        return False
    return _CLOSING.fullmatch(text, answer_end(text, markers[0][1], format)) is not None
