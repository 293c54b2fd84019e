"""The widest primary interval by `reward-ablation budget`, beside equal seeds for all arms, in random studies.

    python benchmarks/budget.py --json FILE [--studies 200]

A study has 3 to 12 arms. Hours of a run and standard deviations between seeds vary from arm to arm by lognormal
factors. Each arm is compared with the first, or some pairs of arms are compared. The limit pays for 2 to 8 seeds of
each arm. The last line has the time of a choice for 30 arms and at most 10 seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.design.budget import Precision, Problem, choose, equal_seeds

#: Kinds of studies: standard deviation of the logarithm of hours, standard deviation of the logarithm of the spread
#: between seeds, and whether all arms are compared with the first. The names seed the random studies.
KINDS: dict[str, tuple[float, float, bool]] = {
    "alike, all against the first": (0.0, 0.0, True),
    "hours differ, all against the first": (0.7, 0.0, True),
    "hours and seeds differ, all against the first": (0.7, 0.5, True),
    "hours and seeds differ, some pairs": (0.7, 0.5, False),
}
QUESTIONS, CONFIDENCE = 500, 0.95


def random_problem(kind: str, arms: int, rng: np.random.Generator, most: int = 20) -> Problem:
    """A random study of one of `KINDS`, with at most `most` seeds per arm."""
    of_hours, of_seeds, against_first = KINDS[kind]
    names = [f"arm{place}" for place in range(arms)]
    pairs = [(name, names[0]) for name in names[1:]]
    if not against_first:
        picked = rng.permutation(arms)
        pairs = [(names[one], names[other]) for one, other in zip(picked[::2], picked[1::2], strict=False)]
    deviations = rng.uniform(0.01, 0.04) * np.exp(rng.normal(0, of_seeds, arms))
    precision = Precision(
        variances=dict(zip(names, deviations**2, strict=True)),
        common=dict.fromkeys(names, 0.0),
        questions=dict.fromkeys(pairs, 0.2**2 / QUESTIONS),
        question_count=QUESTIONS,
        confidence=CONFIDENCE,
        lends=True,
    )
    hours = dict(zip(names, np.exp(rng.normal(0, of_hours, arms)), strict=True))
    needed = frozenset(arm for pair in pairs for arm in pair)
    return Problem(precision, hours, needed=needed, most=most)


def measure(kind: str, studies: int) -> dict[str, Any]:
    """Widest intervals by the budget over widest intervals by equal seeds, and the seconds of the slowest choice."""
    rng = generator("budget", kind)
    ratios, seconds = [], []
    for _ in range(studies):
        problem = random_problem(kind, int(rng.integers(3, 13)), rng)
        limit = float(rng.uniform(2, 8)) * problem.cost(dict.fromkeys(problem.contrasted, 1) | unused(problem))
        begin = time.perf_counter()
        chosen = choose(problem, limit).seeds
        seconds.append(time.perf_counter() - begin)
        same = equal_seeds(problem, limit)
        widths = [problem.value(seeds)[1] ** 0.5 for seeds in (chosen, same) if seeds is not None]
        ratios.append(widths[0] / widths[1])
    return {"kind": kind, "ratios": ratios, "seconds": max(seconds)}


def unused(problem: Problem) -> dict[str, int]:
    """No seeds for the arms that are in no contrast."""
    return {arm: 0 for arm in problem.hours if arm not in problem.contrasted}


def large() -> float:
    """Seconds of a choice for 30 arms and at most 10 seeds."""
    problem = random_problem("hours and seeds differ, all against the first", 30, generator("large"), most=10)
    begin = time.perf_counter()
    choose(problem, 5 * sum(problem.hours.values()))
    return time.perf_counter() - begin


def table(result: dict[str, Any]) -> str:
    """Markdown: one row per kind of study."""
    lines = ["| studies | ratio of widest intervals: mean | best tenth | worst |", "| --- " * 4 + "|"]
    for row in result["rows"]:
        mean, tenth, worst = np.mean(row["ratios"]), np.quantile(row["ratios"], 0.1), max(row["ratios"])
        lines.append(f"| {row['kind']} | {mean:.2f} | {tenth:.2f} | {worst:.2f} |")
    slowest = max(row["seconds"] for row in result["rows"])
    studies = sum(len(row["ratios"]) for row in result["rows"])
    note = (
        "Length (root mean square) of the widest primary interval, over that with equal seeds for all arms within the "
        f"same limit, in {studies} random studies of 3 to 12 arms. A choice took at most {slowest:.1f} s. For 30 arms "
        f"and at most 10 seeds it took {result['large']:.1f} s."
    )
    return "\n".join([*lines, "", note])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--studies", type=int, default=200)
    options = parser.parse_args()
    rows = [measure(kind, options.studies // len(KINDS)) for kind in KINDS]
    result = {"rows": rows, "large": large()}
    if options.json:
        options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
