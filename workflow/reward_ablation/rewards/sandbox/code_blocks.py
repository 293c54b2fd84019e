"""Where in a completion the program stands."""

from __future__ import annotations

import re

from reward_ablation.rewards.grading.extraction import after_thinking

#: A line that opens or closes a block of Markdown, with the language of the block.
_FENCE = re.compile(r"^[ \t]{0,3}```[ \t]*([\w+#.-]*)[^\n`]*$", re.MULTILINE)
_PYTHON = frozenset({"python", "py", "python3"})


def extract_code(text: str) -> str:
    """The program in a completion: the last block of Markdown that is marked as Python, with its indentation.

    Without such a block it is the last block without a language, else the whole text. A block that is never closed goes
    to the end of the text, because its closing line may be a stop sequence. Only the text after the last ``</think>``
    counts, up to a ``<think>`` that is never closed. Time is linear in the length of the text.
    """
    text = after_thinking(text)
    blocks: dict[bool, str] = {}  # the last block that is marked as Python, and the last without a language
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif not fence[1]:
            _add(blocks, opened, text[opened.end() + 1 : fence.start()])
            opened = None
    if opened is not None:
        _add(blocks, opened, text[opened.end() + 1 :])
    return blocks.get(True, blocks.get(False, text.lstrip("\r\n")))


def _add(blocks: dict[bool, str], opened: re.Match[str], code: str) -> None:
    language = opened[1].lower()
    if language in _PYTHON or not language:
        blocks[bool(language)] = code
