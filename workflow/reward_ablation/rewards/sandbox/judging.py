"""Verdicts on programs by asserts, or by input with the expected output. The component `unit_tests` asks for them.

Programs and tests become jobs of `supervisor`. Here the outcomes of the jobs are read, and no program is run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reward_ablation.rewards.sandbox.supervisor import Job, Outcome, Sandbox, sandbox

Status = Literal["passed", "failed", "timeout", "error"]


@dataclass(frozen=True)
class Task:
    """A program that a model wrote, which is hostile input, and its tests.

    `tests` is a list of texts, each with any number of asserts, or a list of {"input": text, "output": text}. With
    anything else the program gets no verdict.
    """

    program: str
    tests: Any
    code_before: str = ""  # code that the program continues, such as the head of a function


@dataclass(frozen=True)
class Verdict:
    """Verdict on one program.

    - passed: all tests pass.
    - failed: a test does not pass, for any reason except time.
    - timeout: the limit on CPU time or on wall time was reached.
    - error: no verdict, through no fault of the program: there are no tests, or they cannot be read.

    `share` is the share of tests that pass, in [0, 1].
    """

    status: Status
    share: float


def judge(
    tasks: Sequence[Task],
    *,
    seconds: int,
    memory_mb: int,
    all_tests: bool = False,
    workers: int | None = None,
    runner: Sandbox = sandbox,
) -> list[Verdict]:
    """Verdicts on programs, in order; StudyError without means to isolate them, RuntimeError if the server cannot fork.

    `seconds` is the CPU time of a program for all its asserts, or for one input. `memory_mb` is its address space in
    MiB, of which Python takes about 30. With `all_tests`, tests go on after the first failed one, to know the share.
    `workers` programs run at once, by default one for each CPU but at most 4; the verdicts do not depend on it.
    """
    at_once = workers or min(4, len(os.sched_getaffinity(0)))
    kinds = [_kind(task.tests) for task in tasks]
    found = {number: Verdict("error", 0.0) for number, kind in enumerate(kinds) if kind is None}
    asserted = [number for number, kind in enumerate(kinds) if kind == "asserts"]
    jobs = [_job(tasks[number], "tests", _tests(tasks[number]), seconds, memory_mb, all_tests) for number in asserted]
    for number, outcome in zip(asserted, runner.run(jobs, at_once) if jobs else (), strict=True):
        found[number] = _of_asserts(outcome)
    # The next test of each script, until all its tests have run or, without `all_tests`, one has failed.
    statuses: dict[int, list[Status]] = {number: [] for number, kind in enumerate(kinds) if kind == "scripts"}
    while waiting := [
        number
        for number, known in statuses.items()
        if len(known) < len(tasks[number].tests) and (all_tests or set(known) <= {"passed"})
    ]:
        tests = [tasks[number].tests[len(statuses[number])] for number in waiting]
        jobs = [
            _job(tasks[number], "script", test["input"], seconds, memory_mb)
            for number, test in zip(waiting, tests, strict=True)
        ]
        for number, test, outcome in zip(waiting, tests, runner.run(jobs, at_once), strict=True):
            statuses[number].append(_of_output(outcome, test["output"]))
    found |= {number: _of_scripts(known, len(tasks[number].tests)) for number, known in statuses.items()}
    return [found[number] for number in range(len(tasks))]


def _kind(tests: Any) -> Literal["asserts", "scripts"] | None:
    """Whether tests are texts with asserts, or inputs and outputs of a script; None for anything else."""
    if not isinstance(tests, list) or not tests:
        return None
    if all(isinstance(test, str) for test in tests):
        return "asserts"
    if all(
        isinstance(test, dict) and isinstance(test.get("input"), str) and isinstance(test.get("output"), str)
        for test in tests
    ):
        return "scripts"
    return None


def _tests(task: Task) -> str:
    return json.dumps({"tests": task.tests, "code_before": task.code_before})


def _job(
    task: Task, kind: Literal["tests", "script"], text: str, seconds: int, memory_mb: int, all_tests: bool = False
) -> Job:
    """The program after the code that it continues. A program that repeats this code only defines it again."""
    before = task.code_before
    before += "" if not before or before.endswith("\n") else "\n"
    return Job(before + task.program, kind, text, seconds, memory_mb, all_tests, before.count("\n"))


def _of_asserts(outcome: Outcome) -> Verdict:
    """Verdict from the result of the tests. Only the process of the tests can write this result, not the program."""
    try:
        result = json.loads(outcome.output)
        if "unreadable" in result:
            return Verdict("error", 0.0)
        passed, count = sum(test is True for test in result["passed"]), len(result["passed"])
        program_ended = result["program_ended"]
    except (ValueError, RecursionError, TypeError, KeyError):  # the process of the tests ended early
        return Verdict("timeout" if outcome.is_late or outcome.was_killed(0) else "failed", 0.0)
    if passed == count:
        return Verdict("passed", 1.0)
    return Verdict("timeout" if program_ended and outcome.was_killed(1) else "failed", passed / count)


def _of_scripts(statuses: list[Status], count: int) -> Verdict:
    """Verdict from the statuses of the tests that have run, of `count` tests."""
    passed = statuses.count("passed")
    if passed == count:
        return Verdict("passed", 1.0)
    return Verdict("timeout" if "timeout" in statuses else "failed", passed / count)


def _of_output(outcome: Outcome, expected: str) -> Status:
    if outcome.is_too_long:
        return "failed"
    if outcome.is_late or outcome.was_killed(0):
        return "timeout"
    if not _lines(expected) and outcome.statuses[0]:  # a text that is no program prints nothing, too
        return "failed"
    return "passed" if _lines(outcome.output.decode("utf-8", "replace")) == _lines(expected) else "failed"


def _lines(text: str) -> list[str]:
    """Lines without white space at their ends, and without empty lines at the end of the text."""
    return [line.rstrip() for line in text.rstrip().splitlines()]
