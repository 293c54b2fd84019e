"""The cost of judging programs by their tests: the sandbox's start, a batch of 64, and ten programs beside training.

    python benchmarks/unit_tests.py --json FILE [--rounds 10]

The time of the batch is divided by the time of as many starts of a bare Python process, with as many starts at once as
programs. Batches and starts take turns. Processes that keep every core busy stand in for training.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the problems are the tests' own

from reward_ablation.rewards.sandbox.judging import Task, judge
from reward_ablation.rewards.sandbox.supervisor import MODES, Job, Sandbox
from reward_ablation.system.errors import StudyError
from rewards.sandbox.problems import PROBLEMS

BATCH = 64
FEW = 10
RATIO_GOAL = 1.5
SECONDS_GOAL = 1.0
WORKERS = min(4, len(os.sched_getaffinity(0)))


def tasks(count: int) -> list[Task]:
    """Right and wrong programs of the tests' problems, repeated as often as needed."""
    made = [Task(program, p.tests, p.code_before) for p in PROBLEMS for program in (*p.right, *p.wrong)]
    return [made[number % len(made)] for number in range(count)]


def seconds_of_start() -> float:
    """Wall seconds of a bare Python process, isolated as the server is."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
    return time.perf_counter() - start


def seconds_of(batch: list[Task], runner: Sandbox) -> float:
    """Wall seconds of judging a batch."""
    start = time.perf_counter()
    judge(batch, seconds=2, memory_mb=1024, runner=runner, workers=WORKERS)
    return time.perf_counter() - start


def compare_with_starts(runner: Sandbox, rounds: int) -> dict[str, Any]:
    """Times of batches and of process starts, in turns, and their ratios."""
    batches, starts = [], []
    for _ in range(rounds):
        batches.append(seconds_of(tasks(BATCH), runner))
        starts.append(statistics.median(seconds_of_start() for _ in range(5)))
    ratios = [batch * WORKERS / (BATCH * start) for batch, start in zip(batches, starts, strict=True)]
    return {
        "batch_seconds": statistics.median(batches),
        "start_seconds": statistics.median(starts),
        "ratio": {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)},
    }


@contextmanager
def busy_cores() -> Iterator[None]:
    """While this context lasts, a process that never waits runs on every core."""
    count = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(10000))"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def benchmark(mode: str, rounds: int) -> dict[str, Any]:
    """All numbers of one way of isolation; the reason if this machine does not have it."""
    runner = Sandbox((mode,))
    try:
        start = time.perf_counter()
        runner.run([Job("print(1)", "script", "", 2, 512)], 1)
        result: dict[str, Any] = {"first_seconds": time.perf_counter() - start}
        result |= compare_with_starts(runner, rounds)
        with busy_cores():
            beside = [seconds_of(tasks(FEW), runner) for _ in range(rounds)]
        result["beside_training"] = {"median": statistics.median(beside), "highest": max(beside)}
        return result
    except StudyError as error:
        return {"refused": str(error)}
    finally:
        runner.close()


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        f"| isolation | first program | {BATCH} programs, {result['workers']} at once | ratio to process starts "
        f"(goal {RATIO_GOAL}) | {FEW} programs beside training (goal {SECONDS_GOAL:.0f} s) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for mode, numbers in result["modes"].items():
        if "refused" in numbers:
            lines.append(f"| {mode} | not on this machine | | | |")
            continue
        ratio, beside = numbers["ratio"], numbers["beside_training"]
        lines.append(
            f"| {mode} | {numbers['first_seconds']:.2f} s | {numbers['batch_seconds']:.2f} s "
            f"| {ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f}) "
            f"| {beside['median']:.2f} s (at most {beside['highest']:.2f} s) |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the numbers go")
    parser.add_argument("--rounds", type=int, default=10, help="turns of batches and process starts")
    arguments = parser.parse_args()
    result = {"workers": WORKERS, "modes": {mode: benchmark(mode, arguments.rounds) for mode in MODES}}
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
