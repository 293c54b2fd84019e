"""Simulated sequential studies of four arms: errors, saved runs, power, and coverage of the repeated intervals.

    python benchmarks/sequential_seeds.py --json FILE [--studies 1000]

The answers are simulated as in benchmarks/coverage_of_studies.py. Each study looks after 2, 3, 5 and 8 seeds. The arms
of a contrast that is called different get no further seeds. The sequential studies are compared with studies of eight
seeds and Holm's tests (`fixed`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from coverage_of_studies import BATCH, QUESTIONS, RESAMPLES, Scenario, simulated

from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    distribution,
    holm,
    intervals,
    p_values,
    resampled_seeds,
)
from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.design.looks import SPENDING, Plan, corrected

LOOKS, LEVEL = (2, 3, 5, 8), 0.05

ALIKE = [
    Scenario("alike, spread .1"),
    Scenario("alike, spread .2", spreads=(0.2, 0.2, 0.2, 0.2)),
    Scenario("alike, spread .4", spreads=(0.4, 0.4, 0.4, 0.4)),
    Scenario("alike, spread .4, correlation .7", spreads=(0.4, 0.4, 0.4, 0.4), correlation=0.7),
    Scenario("alike, last arm 4 times .1", spreads=(0.1, 0.1, 0.1, 0.4)),
]
UNLIKE = [
    *(Scenario(f"all +.2, spread {spread:g}", (0.5, 0.7, 0.7, 0.7), (spread,) * 4) for spread in (0.1, 0.2, 0.4)),
    Scenario("+.05, +.1, +.2, spread .2", (0.5, 0.55, 0.6, 0.7), (0.2, 0.2, 0.2, 0.2)),
]


def of_contrast(values: np.ndarray, seeds: np.ndarray, arm: int, now: int, label: str) -> Distribution:
    """Difference of an arm to the first after `now` seeds, in each study. Arms that stopped before lend no variance.

    Parameters
    ----------
    values : (studies, arms, seeds, questions) array
    seeds : (arms,) array
        Number of seeds of each arm, the same in all these studies.
    now : int
        Number of seeds at this look.
    """
    studies, arms = values.shape[:2]
    by_seed = np.where(np.arange(now) < seeds[:, None], values[:, :, :now].mean(axis=3), np.nan)
    means = SeedMeans([str(number) for number in range(arms)], list(range(now)), by_seed, [SHARE] * studies, QUESTIONS)
    difference = values[:, arm, :now] - values[:, 0, :now]
    variance = means.of_contrast({str(arm): 1.0, "0": -1.0}, list(range(now)))
    limits = (np.full(studies, -1.0), np.ones(studies))
    return distribution(difference, resampled_seeds(difference, label, RESAMPLES), label, limits, variance)


def followed(values: np.ndarray, truths: np.ndarray, plan: Plan, label: str) -> dict[str, np.ndarray]:
    """Follow sequential studies over all looks.

    Returns
    -------
    dict
        (studies, contrasts) arrays of bool: `different` (called different), `held` (the interval at the last look holds
        the truth) and `held_always` (the intervals at all looks do). `runs`, a (studies,) array: number of runs.
    """
    studies, arms = values.shape[:2]
    different = np.zeros((studies, arms - 1), bool)
    held, held_always = different.copy(), ~different
    seeds = np.full((studies, arms), plan.looks[0])
    for look, now in enumerate(plan.looks):
        patterns, pattern_of = np.unique(different, axis=0, return_inverse=True)
        for number, done in enumerate(patterns):
            chosen = np.flatnonzero(pattern_of.ravel() == number)
            still = np.flatnonzero(~done)
            if not len(still):
                continue
            seeds[np.ix_(chosen, [0, *(still + 1)])] = now
            p = np.empty((len(still), len(chosen)))
            for place, contrast in enumerate(still):
                of = of_contrast(values[chosen], seeds[chosen[0]], contrast + 1, now, label)
                p[place] = p_values(of)
                low, high = intervals(of, plan.confidence(look))
                holds = (low <= truths[contrast]) & (truths[contrast] <= high)
                held[chosen, contrast] = holds
                held_always[chosen, contrast] &= holds
            rejected = np.apply_along_axis(corrected, 0, p, look, plan, 0) < plan.level
            different[np.ix_(chosen, still)] = rejected.T
    return {"different": different, "held": held, "held_always": held_always, "runs": seeds.sum(axis=1)}


def fixed(values: np.ndarray, label: str) -> np.ndarray:
    """Contrasts that Holm's tests call different with all seeds: (studies, contrasts) array of bool."""
    studies, arms, now = values.shape[:3]
    seeds = np.full(arms, now)
    p = np.array([p_values(of_contrast(values, seeds, arm, now, label)) for arm in range(1, arms)])
    return np.asarray((np.apply_along_axis(holm, 0, p) < LEVEL).T).reshape(studies, arms - 1)


def measure(scenario: Scenario, studies: int) -> dict[str, Any]:
    """Shares over the simulated studies, by spending function and for eight seeds in all arms."""
    rng = generator("sequential seeds", *map(str, scenario))
    truths = np.array(scenario.accuracies[1:]) - scenario.accuracies[0]
    rows: dict[str, dict[str, list[np.ndarray]]] = {name: {} for name in ("fixed", *SPENDING)}
    for batch in range(studies // BATCH):
        values, label = simulated(scenario, LOOKS[-1], rng), f"batch {batch}"
        rows["fixed"].setdefault("different", []).append(fixed(values, label))
        for stop in SPENDING:
            for name, of_batch in followed(values, truths, Plan(LOOKS, stop, LEVEL), label).items():
                rows[stop].setdefault(name, []).append(of_batch)
    most = LOOKS[-1] * len(scenario.accuracies)
    result: dict[str, Any] = {"scenario": scenario.name}
    for method, lists in rows.items():
        arrays = {name: np.concatenate(parts) for name, parts in lists.items()}
        result[method] = {
            "any": float(arrays["different"][:, truths == 0].any(axis=1).mean()) if (truths == 0).any() else None,
            "power": arrays["different"].mean(axis=0).tolist(),
            **({name: arrays[name].mean(axis=0).tolist() for name in ("held", "held_always") if name in arrays}),
            **({"saved": float(1 - arrays["runs"].mean() / most)} if "runs" in arrays else {}),
        }
    return result


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def table(result: dict[str, Any]) -> str:
    """Markdown: errors and coverage if arms are alike, power and saved runs if they differ."""
    methods = list(SPENDING)
    further = " | ".join(
        f"runs saved: {stop} | interval at the end: {stop} | intervals at all looks: {stop}" for stop in methods
    )
    lines = ["| arms | any difference found: 8 seeds | " + " | ".join(methods) + f" | {further} |"]
    lines.append("| --- " * (2 + 4 * len(methods)) + "|")
    for row in result["rows"]:
        if row["fixed"]["any"] is None:
            continue
        cells = [row["scenario"], percent(row["fixed"]["any"]), *(percent(row[stop]["any"]) for stop in methods)]
        lines.append(f"| {' | '.join(cells + _saved_and_held(row))} |")
    lines += [
        "",
        "| arms | power: 8 seeds | " + " | ".join(methods) + f" | {further} |",
        "| --- " * (2 + 4 * len(methods)) + "|",
    ]
    for row in result["rows"]:
        if row["fixed"]["any"] is None:
            powers = [", ".join(map(percent, row[method]["power"])) for method in ("fixed", *methods)]
            lines.append(f"| {' | '.join([row['scenario'], *powers, *_saved_and_held(row)])} |")
    note = (
        f"Percent of {result['studies']:,} simulated studies with looks at 2, 3, 5 and 8 seeds, four arms and 200 "
        "questions with 4 samples. Any difference found: the familywise error. Power: that of each contrast. Interval "
        "at the end, intervals at all looks: percent of studies whose repeated 95 % intervals hold the truth, for the "
        "worst contrast."
    )
    return "\n".join([*lines, "", note])


def _saved_and_held(row: dict[str, Any]) -> list[str]:
    return [
        percent(value)
        for stop in SPENDING
        for value in (row[stop]["saved"], min(row[stop]["held"]), min(row[stop]["held_always"]))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--only", default="", help="scenarios whose names contain this")
    options = parser.parse_args()
    rows = []
    for scenario in ALIKE + UNLIKE:
        if options.only in scenario.name:
            rows.append(measure(scenario, options.studies))
            print(json.dumps(rows[-1]), flush=True)
    result = {"studies": options.studies, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
