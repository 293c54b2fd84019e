"""The cost of hostile completions: none may crash the process that grades them, hang it, or make it grow.

    python benchmarks/hostile.py --json FILE [--count 50000] [--turns 12]

Grades generated hostile completions (tests/rewards/grading/test_hostile.py) one call at a time, and times each call.
Then grades batches of 64 ordinary completions in turns with the same batches in which one completion is hostile. Each
batch has a process of its own, whose cache is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the generator is the tests' own

from reward_ablation.rewards import grade, grade_batch
from reward_ablation.rewards.grading.math_worker import CPU_SECONDS, math_worker
from rewards.grading.test_hostile import ALLOWED, CANARY, cases

ROOT = Path(__file__).parents[1]
SECONDS_GOAL = 2.0
RATIO_GOAL = 1.5
BATCH = 64
#: Answers that keep a computer algebra system busy until it is ended.
BURNERS = (
    r"\int_0^1\int_0^1\int_0^1 e^{-x^2}\sin(x^x) y^{%d} dx dy dz",
    r"\int_0^{%d} \frac{\sin^{37}(x)}{x^{41}+1} dx",
    r"\int_0^1\int_0^1\int_0^1 x^{%d}\ln(\ln x) y^{61} dx dy dz",
)


def resident_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def grade_all(count: int, seed: int) -> dict[str, Any]:
    """Grade the cases of a seed, one call each. The worker is started first."""
    grade(r"\boxed{1+x}", "x+1")
    statuses: Counter[str] = Counter()
    disallowed, crashes, seconds, restarts, at_bound = [], [], [], 0, 0
    slowest: dict[str, Any] = {"seconds": 0.0}
    memory = {"0": resident_mb()}
    pid, begin = math_worker.pid, time.perf_counter()
    for number, (completion, gold) in enumerate(cases(count, seed), start=1):
        start = time.perf_counter()
        try:
            status = grade(completion, gold).status
        except Exception as error:
            crashes.append(f"{completion[:100]}: {type(error).__name__}: {error}"[:200])
            continue
        took = time.perf_counter() - start
        seconds.append(took)
        statuses[status] += 1
        restarts += math_worker.pid != pid
        pid = math_worker.pid
        # A timeout that takes so long was not foreseen: it used up the CPU time or the memory.
        at_bound += status == "timeout" and took > 0.1
        if status not in ALLOWED:
            disallowed.append({"number": number - 1, "status": status, "gold": gold})
        if took > slowest["seconds"]:
            slowest = {"seconds": took, "answer": completion[:100]}
        if number in (count // 5, count):
            memory[str(number)] = resident_mb()
        if number % 1000 == 0:
            print(f"{number}/{count}: {time.perf_counter() - begin:.0f} s, {len(disallowed)} not allowed", flush=True)
    return {
        "count": count,
        "seed": seed,
        "statuses": dict(statuses),
        "disallowed": disallowed,
        "crashes": crashes,
        "ran_code": any((folder / CANARY).exists() for folder in (Path.cwd(), ROOT, Path.home())),
        "total_seconds": time.perf_counter() - begin,
        "median_seconds": statistics.median(seconds),
        "over_goal": sum(took > SECONDS_GOAL for took in seconds),
        "slowest": slowest,
        "at_bound": at_bound,
        "restarts": restarts,
        "resident_mb": memory,
    }


def ordinary_batch(rows: list[dict[str, Any]], turn: int) -> tuple[list[str], list[str]]:
    """Solutions and golds of MATH; every third solution stands beside the gold of the next problem."""
    chosen = [rows[(turn * BATCH + i) % len(rows)] for i in range(BATCH)]
    golds = [chosen[(i + (i % 3 == 0)) % BATCH]["answer"] for i in range(BATCH)]
    return [row["solution"] for row in chosen], golds


def timed_batch(completions: list[str], golds: list[str]) -> float:
    """Wall seconds of one batch in this process. The worker is started first."""
    grade(r"\boxed{1+x}", "x+1")
    start = time.perf_counter()
    grade_batch(completions, golds)
    return time.perf_counter() - start


def compare_batches(data: Path, turns: int) -> dict[str, Any]:
    """Times of the same batches with and without a hostile completion, each in a fresh process."""
    path = data / "math_train.jsonl"
    if not path.is_file():
        sys.exit(f"error: {path}: no such file; name the folder of math_train.jsonl with --data")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row for row in rows if row["answer"]]
    results = []
    for turn in range(turns):
        completions, golds = ordinary_batch(rows, turn)
        hostile = list(completions)
        hostile[turn % BATCH] = rf"\boxed{{{BURNERS[turn % len(BURNERS)] % (turn + 31)}}}"
        order = [("ordinary", completions), ("hostile", hostile)][:: 1 if turn % 2 else -1]
        times = {}
        for name, batch in order:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                times[name] = fresh.submit(timed_batch, batch, golds).result()
        results.append(times)
        print(f"turn {turn + 1}/{turns}: {times['ordinary']:.2f} s, {times['hostile']:.2f} s", flush=True)
    allowed = [RATIO_GOAL * times["ordinary"] + CPU_SECONDS for times in results]
    excess = [(times["hostile"] - times["ordinary"]) / CPU_SECONDS for times in results]
    return {
        "turns": results,
        "deadline_seconds": CPU_SECONDS,
        "ordinary_seconds": statistics.median(times["ordinary"] for times in results),
        "hostile_seconds": statistics.median(times["hostile"] for times in results),
        "excess_deadlines": {"median": statistics.median(excess), "lowest": min(excess), "highest": max(excess)},
        "over_goal_seconds": [max(0.0, t["hostile"] - limit) for t, limit in zip(results, allowed, strict=True)],
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    fuzz, batch = result["fuzz"], result["batch"]
    statuses = ", ".join(f"{name} {count:,}" for name, count in sorted(fuzz["statuses"].items()))
    memory = [f"{megabytes:.0f}" for megabytes in fuzz["resident_mb"].values()]
    checked = [f"{int(number):,}" for number in fuzz["resident_mb"]]
    excess, over = batch["excess_deadlines"], [seconds for seconds in batch["over_goal_seconds"] if seconds > 0]
    beyond = f"; at most {max(over) * 1000:.0f} ms over" if over else ""
    rows = [
        ("completions", f"{fuzz['count']:,} ({fuzz['total_seconds'] / 60:.0f} minutes, one at a time)", ""),
        ("statuses", statuses, ""),
        ("completions with a status that is not allowed", len(fuzz["disallowed"]), "0"),
        ("exceptions", len(fuzz["crashes"]), "0"),
        ("slowest completion", f"{fuzz['slowest']['seconds']:.2f} s", "2 s"),
        ("median completion", f"{fuzz['median_seconds'] * 1000:.1f} ms", ""),
        ("answers that were ended at the limit of CPU time or memory", fuzz["at_bound"], ""),
        ("restarts of the worker", fuzz["restarts"], ""),
        (f"resident memory of the caller, MB, after {' / '.join(checked)}", " / ".join(memory), "flat"),
        (f"batch of {BATCH} ordinary completions of MATH", f"{batch['ordinary_seconds']:.2f} s", ""),
        ("the same batch with one hostile completion", f"{batch['hostile_seconds']:.2f} s", ""),
        (
            f"extra time, in deadlines of {batch['deadline_seconds']} CPU second",
            f"{excess['median']:.2f} ({excess['lowest']:.2f} to {excess['highest']:.2f})",
            "",
        ),
        (
            "batches within 1.5 times the ordinary batch plus a deadline",
            f"{len(batch['turns']) - len(over)} of {len(batch['turns'])}{beyond}",
            "all",
        ),
    ]
    return "\n".join(["| | measured | goal |", "| --- | --- | --- |", *(f"| {a} | {b} | {c} |" for a, b, c in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the numbers go")
    parser.add_argument("--count", type=int, default=50_000, help="hostile completions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", type=int, default=12, help="batches with and without a hostile completion")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of math_train.jsonl")
    arguments = parser.parse_args()
    batch = compare_batches(arguments.data, arguments.turns)
    result = {"fuzz": grade_all(arguments.count, arguments.seed), "batch": batch}
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
