"""How often does a 95 % interval hold the truth? Simulated studies, whose truth is known.

    python benchmarks/coverage.py --json FILE [--studies 2000]

A study has seeds x questions x samples. The chance that a model with one seed answers a question correctly is
logistic in the question's difficulty, the seed's level and an interaction of both, all of them normal. The truth is
the mean over all possible seeds and questions. A difference compares two arms that share their questions and have seed
levels of their own. This package's intervals stretch a bootstrap. They are compared with the percentile interval of
this bootstrap, and with an interval that treats all answers as independent.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from reward_ablation.analysis.statistics.estimates import distribution, intervals, resampled_seeds
from reward_ablation.analysis.statistics.intervals import generator, percentile_interval, resampling_shares

CONFIDENCE, RESAMPLES = 0.95, 2000
SEEDS = [1, 2, 3, 5, 10]

#: Standard deviations of difficulty, and of its interaction with seeds, on the logistic scale.
DIFFICULTY, INTERACTION = 1.5, 0.5

#: Difference of accuracy between two arms.
EFFECT = 0.05

#: Number of studies that are simulated together and share one set of resamples.
BATCH = 100

#: Estimate, accuracy, questions, samples, and standard deviation of seeds on the logistic scale.
SCENARIOS: list[tuple[str, float, int, int, float]] = [
    ("accuracy", 0.60, 200, 1, 0.0),
    ("accuracy", 0.60, 200, 1, 0.1),
    ("accuracy", 0.60, 200, 1, 0.5),
    ("accuracy", 0.30, 500, 4, 0.1),
    ("accuracy", 0.60, 1319, 8, 0.0),
    ("accuracy", 0.60, 1319, 8, 0.1),
    ("accuracy", 0.60, 1319, 8, 0.5),
    ("accuracy", 0.90, 1319, 1, 0.1),
    ("accuracy", 0.03, 200, 1, 0.0),
    ("accuracy", 0.97, 200, 1, 0.1),
    ("accuracy", 0.97, 1319, 4, 0.5),
    ("accuracy", 0.99, 1319, 1, 0.1),
    ("difference", 0.60, 200, 1, 0.0),
    ("difference", 0.60, 200, 1, 0.1),
    ("difference", 0.60, 200, 1, 0.5),
    ("difference", 0.30, 500, 4, 0.1),
    ("difference", 0.60, 1319, 8, 0.0),
    ("difference", 0.60, 1319, 8, 0.1),
    ("difference", 0.60, 1319, 8, 0.5),
    ("difference", 0.97, 200, 1, 0.1),
    ("difference", 0.97, 1319, 4, 0.0),
]


def centre(accuracy: float, spread: float) -> float:
    """Mean of a normal distribution of logits with standard deviation `spread` whose mean chance is `accuracy`."""
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()
    return float(brentq(lambda middle: weights @ expit(middle + spread * points) - accuracy, -20, 20))


def simulated(
    kind: str, accuracy: float, seeds: int, questions: int, samples: int, seed_spread: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Question means of `BATCH` studies as (studies, seeds, questions) array, and the truth."""
    difficulty = rng.normal(0, DIFFICULTY, (BATCH, 1, questions))
    spread = float(np.sqrt(DIFFICULTY**2 + INTERACTION**2 + seed_spread**2))

    def arm(of_arm: float) -> np.ndarray:
        level = rng.normal(0, seed_spread, (BATCH, seeds, 1))
        own = rng.normal(0, INTERACTION, (BATCH, seeds, questions))
        chance = expit(centre(of_arm, spread) + difficulty + level + own)
        return rng.binomial(samples, chance) / samples

    if kind == "accuracy":
        return arm(accuracy), accuracy
    return arm(accuracy) - arm(accuracy - EFFECT), EFFECT


def ends(values: np.ndarray, kind: str, label: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ends of the intervals of each study, by method."""
    studies, seeds, questions = values.shape
    limits = (np.full(studies, 0.0 if kind == "accuracy" else -1.0), np.ones(studies))
    by_seed = resampled_seeds(values, label, RESAMPLES)
    rng = generator("benchmark", label)
    drawn = resampling_shares(RESAMPLES, seeds, rng)
    plain = np.einsum("bms,bs->bm", by_seed, drawn)
    error = values.std(axis=(1, 2)) / np.sqrt(seeds * questions)
    estimate = values.mean(axis=(1, 2))
    return {
        "ours": intervals(distribution(values, by_seed, label, limits), CONFIDENCE),
        "percentile": percentile_interval(plain, CONFIDENCE),
        "independent": (estimate - 1.96 * error, estimate + 1.96 * error),
    }


def measure(scenario: tuple[str, float, int, int, float], seeds: int, studies: int) -> dict[str, Any]:
    """Share of studies whose interval holds the truth, by method; length and misses of this package's intervals."""
    kind, accuracy, questions, samples, seed_spread = scenario
    rng = generator("coverage", *map(str, scenario), str(seeds))
    held: dict[str, list[np.ndarray]] = {}
    below, lengths = [], []
    for batch in range(studies // BATCH):
        values, truth = simulated(kind, accuracy, seeds, questions, samples, seed_spread, rng)
        for method, (low, high) in ends(values, kind, f"batch {batch}").items():
            held.setdefault(method, []).append((low <= truth) & (truth <= high))
            if method == "ours":
                below.append(high < truth)
                lengths.append(high - low)
    return {
        "seeds": seeds,
        **{method: float(np.mean(of_batches)) for method, of_batches in held.items()},
        "interval_below": float(np.mean(below)),
        "length": float(np.mean(lengths)),
    }


def table(result: dict[str, Any]) -> str:
    """Markdown: one row per scenario, one column per number of seeds."""
    lines = [
        "| estimate | accuracy | questions × samples | spread of seeds | "
        + " | ".join(f"{seeds} seed{'s' if seeds > 1 else ''}" for seeds in SEEDS)
        + " | plain bootstrap, 3 seeds | answers as independent, 3 seeds |",
        "| --- " * (6 + len(SEEDS)) + "|",
    ]
    for row in result["scenarios"]:
        kind, accuracy, questions, samples, seed_spread = row["scenario"]
        by_seeds = {cell["seeds"]: cell for cell in row["cells"]}
        cells = [f"{100 * by_seeds[seeds]['ours']:.1f}" if seeds in by_seeds else "" for seeds in SEEDS]
        plain = [f"{100 * by_seeds[3][method]:.1f}" for method in ("percentile", "independent")]
        parts = [kind, f"{accuracy:.2f}", f"{questions:,} × {samples}", f"{seed_spread}", *cells, *plain]
        lines.append(f"| {' | '.join(parts)} |")
    ours = [cell["ours"] for row in result["scenarios"] for cell in row["cells"] if cell["seeds"] >= 3]
    inside = sum(0.93 <= share <= 0.97 for share in ours)
    note = (
        f"Percent of {result['studies']:,} simulated studies whose 95 % interval holds the truth. With 3 or more "
        f"seeds, {100 * min(ours):.1f} to {100 * max(ours):.1f} percent do; {inside} of {len(ours)} cells lie between "
        "93 and 97."
    )
    return "\n".join([*lines, "", note])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--studies", type=int, default=2000)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for scenario in SCENARIOS:
        # With one seed, an interval says nothing about other seeds. It can hold the truth only if all seeds are alike.
        seeds = [count for count in SEEDS if count > 1 or scenario[-1] == 0]
        rows.append({"scenario": scenario, "cells": [measure(scenario, count, options.studies) for count in seeds]})
        print(*scenario, [round(cell["ours"], 3) for cell in rows[-1]["cells"]], flush=True)
    result = {"studies": options.studies, "scenarios": rows}
    if options.json:
        options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
