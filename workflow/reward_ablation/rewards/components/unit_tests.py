"""Programs, scored by their tests.

Problems need a column of tests, such as those of the data set `mbpp`. Here the programs are found in the texts; the
sandbox runs and judges them.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import PositiveInt

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading.extraction import after_thinking
from reward_ablation.rewards.sandbox.judging import Task, judge

#: A line that opens or closes a block of Markdown: its indentation, its marks and the language of the block.
_FENCE = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]*+)[^\n`]*$", re.MULTILINE)
#: Largest indentation of such marks. Deeper marks are code, as in Markdown, but not after the first item of a list.
_DEEPEST = 3
_LIST_ITEM = re.compile(r"^[ \t]*+(?:[-*+]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_PYTHON = frozenset({"python", "py", "python3"})


def unit_tests(
    completions: list[Completion],
    *,
    column: str = "unit_tests",
    prefix_column: str | None = None,
    partial: bool = False,
    seconds: PositiveInt = 2,
    memory_mb: PositiveInt = 1024,
    **columns: Any,
) -> list[float | None]:
    """1 where the program in the completion passes all its tests, else 0; None where no tests can be read.

    The program is the last block marked as Python, else the last without a language, else the whole text after
    ``</think>``. It runs in a sandbox (`rewards.sandbox`) with the standard library and the installed packages.

    Parameters
    ----------
    column : str
        Column of tests: for each completion a list of texts with asserts, or a list of
        ``{"input": ..., "output": ...}`` for programs that read standard input and print.
    prefix_column : str, optional
        Column of code that the program continues, such as HumanEval's prompt, which is the head of a function.
    partial : bool
        Score the share of tests that pass.
    seconds : int
        CPU time of a program for all its asserts, or for one input. Wall time is limited to 4 times this plus 6 s.
    memory_mb : int
        Address space of a program in MiB.

    Notes
    -----
    Source: functional correctness as in HumanEval, arXiv 2107.03374, and APPS, arXiv 2105.09938.
    """
    texts = completion_texts(completions)
    tests = columns.get(column) or [None] * len(texts)
    before = (columns.get(prefix_column) if prefix_column else None) or [""] * len(texts)
    tasks = [Task(extract_code(text), test, code or "") for text, test, code in zip(texts, tests, before, strict=True)]
    verdicts = judge(tasks, seconds=seconds, memory_mb=memory_mb, all_tests=partial)
    return [
        None if verdict.status == "error" else verdict.share if partial else float(verdict.status == "passed")
        for verdict in verdicts
    ]


def extract_code(text: str) -> str:
    """The program in a completion: the last block of Markdown that is marked as Python, without its indentation.

    Without such a block it is the last block without a language, else the whole text. A block that is never closed goes
    to the end of the text, because its closing line may be a stop sequence. Only the text after the last ``</think>``
    counts, up to a ``<think>`` that is never closed. Time is linear in the length of the text.
    """
    text = after_thinking(text)
    blocks: dict[bool, str] = {}  # True: the last block that is marked as Python; False: the last without a language
    opened: re.Match[str] | None = None
    item = _LIST_ITEM.search(text)
    for fence in _FENCE.finditer(text):
        if opened is None:
            in_list = item is not None and item.start() < fence.start()
            opened = fence if in_list or len(fence[1]) <= _DEEPEST else None
        elif not fence[3] and fence[2].startswith(opened[2]) and len(fence[1]) <= len(opened[1]) + _DEEPEST:
            _add(blocks, opened, text[opened.end() + 1 : fence.start()])
            opened = None
    if opened is not None:
        _add(blocks, opened, text[opened.end() + 1 :])
    return blocks.get(True, blocks.get(False, text.lstrip("\r\n")))


def _add(blocks: dict[bool, str], opened: re.Match[str], code: str) -> None:
    """Note a block that may be the program, indented no more than its opening marks; `opened` are these marks."""
    language = opened[3].lower()
    if opened[1] and code.lstrip("\r\n").startswith(opened[1]):
        code = re.sub(rf"^[ \t]{{1,{len(opened[1])}}}", "", code, flags=re.MULTILINE)
    if language in _PYTHON or not language:
        blocks[bool(language)] = code
