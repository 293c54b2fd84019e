"""Programs, scored by their tests."""

from __future__ import annotations

from typing import Any

from pydantic import PositiveInt

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.sandbox.code_blocks import extract_code
from reward_ablation.rewards.sandbox.judging import Task, judge


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
    """1 where the program in the completion passes all its tests, else 0; None where there are no tests to run.

    The program is the last block of code, else the whole text after ``</think>``. It runs in a sandbox
    (`reward_ablation.rewards.sandbox`) with the standard library and the installed packages.

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
