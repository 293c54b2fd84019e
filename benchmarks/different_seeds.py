"""Simulated differences of arms with different seeds: how often intervals hold the truth, and how long they are.

    python benchmarks/different_seeds.py --json FILE [--studies 1000]

Studies of four arms as in benchmarks/coverage_of_studies.py. The first arm has more seeds than the other arms, which
are compared with it. `all` uses all seeds of each arm. `shared` pairs the arms by the seeds that both have, and leaves
the other seeds unused. `shorter` takes the shorter of these two intervals, as the tables do.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from coverage_of_studies import BATCH, CONFIDENCE, QUESTIONS, RESAMPLES, Scenario, simulated

from reward_ablation.analysis.evaluation.answers import Answered, difference, distribution_of, moderated_seed_variance
from reward_ablation.analysis.statistics.estimates import (
    Distribution,
    Sample,
    distribution_of_unpaired_difference,
    intervals,
    resampled_seeds,
    shorter,
)
from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.statistics.seed_variance import SeedMeans

#: Number of seeds of each later arm, and of the first arm.
SEEDS = [(2, 3), (2, 5), (3, 4), (3, 8), (5, 6)]
METHODS = ["all", "shared", "shorter"]

SCENARIOS = [
    Scenario("spread .1"),
    Scenario("spread .4", spreads=(0.4, 0.4, 0.4, 0.4)),
    Scenario("spread .4, correlation .3", spreads=(0.4, 0.4, 0.4, 0.4), correlation=0.3),
    Scenario("spread .4, correlation .7", spreads=(0.4, 0.4, 0.4, 0.4), correlation=0.7),
    Scenario("accuracies .02 to .98, spread .4", (0.02, 0.3, 0.7, 0.98), (0.4, 0.4, 0.4, 0.4)),
    Scenario("first arm 8 times .1", spreads=(0.8, 0.1, 0.1, 0.1)),
    Scenario("last arm 4 times .1", spreads=(0.1, 0.1, 0.1, 0.4)),
]


def answers_of(values: np.ndarray, fewer: int, label: str) -> tuple[list[Answered], SeedMeans]:
    """Answers of each arm, with one metric per study, and the means of all seeds. Only the first arm has all seeds."""
    studies, arms, seeds, _ = values.shape
    means = values.mean(axis=3)
    means[:, 1:, fewer:] = np.nan
    counts = [seeds, *[fewer] * (arms - 1)]
    names = [str(study) for study in range(studies)]
    answers = []
    for arm, count in enumerate(counts):
        own = values[:, arm, :count]
        answers.append(
            Answered(names, list(range(count)), own, resampled_seeds(own, label, RESAMPLES), [SHARE] * studies)
        )
    arm_names = [str(arm) for arm in range(arms)]
    return answers, SeedMeans(arm_names, list(range(seeds)), means, [SHARE] * studies, QUESTIONS)


def by_all(arm: int, answers: list[Answered], means: SeedMeans, label: str) -> Distribution:
    """Difference of an arm to the first, with all seeds of both."""
    samples = [
        Sample(of.values, of.by_seed, moderated_seed_variance(means, {str(number): 1.0}, of)[0])
        for number, of in ((number, answers[number]) for number in (arm, 0))
    ]
    return distribution_of_unpaired_difference(*samples, label, (np.full(BATCH, -1.0), np.ones(BATCH)))


def by_shared(arm: int, answers: list[Answered], means: SeedMeans, label: str) -> Distribution:
    """Difference of an arm to the first, paired by the seeds that both have."""
    paired = difference(answers[arm], answers[0])
    variance, _ = moderated_seed_variance(means, {str(arm): 1.0, "0": -1.0}, paired)
    return distribution_of(paired, label, (-1.0, 1.0), variance)


def by_shorter(arm: int, answers: list[Answered], means: SeedMeans, label: str) -> Distribution:
    """The shorter of the two, as the tables have it."""
    return shorter(by_shared(arm, answers, means, label), by_all(arm, answers, means, label))


def measure(scenario: Scenario, fewer: int, more: int, studies: int) -> dict[str, Any]:
    """Coverage and mean length of each difference, by method."""
    rng = generator("different seeds", *map(str, scenario), str(fewer), str(more))
    held: dict[str, dict[str, list[np.ndarray]]] = {
        method: {f"{what} {arm}": [] for what in ("holds", "length") for arm in (1, 2, 3)} for method in METHODS
    }
    for batch in range(studies // BATCH):
        label = f"batch {batch}"
        answers, means = answers_of(simulated(scenario, more, rng), fewer, label)
        for arm in (1, 2, 3):
            truth = scenario.accuracies[arm] - scenario.accuracies[0]
            for method, made in zip(METHODS, (by_all, by_shared, by_shorter), strict=True):
                low, high = intervals(made(arm, answers, means, label), CONFIDENCE)
                held[method][f"holds {arm}"].append((low <= truth) & (truth <= high))
                held[method][f"length {arm}"].append(high - low)
    of_methods = {
        method: {name: float(np.mean(values)) for name, values in of_method.items()}
        for method, of_method in held.items()
    }
    return {"scenario": scenario.name, "fewer": fewer, "more": more, **of_methods}


def table(result: dict[str, Any]) -> str:
    """Markdown: one row per scenario and pair of numbers of seeds."""
    lines = [
        "| arms | seeds | all seeds: holds, % | length | shared: holds, % | length | shorter: holds, % | length |",
        "| --- " * 8 + "|",
    ]
    for row in result["rows"]:
        cells, lengths = [], []
        for method in METHODS:
            holds, of_method = ([row[method][f"{what} {arm}"] for arm in (1, 2, 3)] for what in ("holds", "length"))
            lengths.append(np.mean(of_method))
            cells += [f"{100 * np.mean(holds):.1f} ({100 * min(holds):.1f})", f"{lengths[-1]:.3f}"]
        seeds = f"{row['fewer']} against {row['more']}"
        lines.append(f"| {row['scenario']} | {seeds} | {' | '.join(cells)} |")
    note = (
        f"Holds: percent of {result['studies']:,} simulated studies whose 95 % interval of a difference holds the "
        "truth, as the mean over three differences, with the worst difference in brackets. Length: mean length of the "
        "intervals."
    )
    return "\n".join([*lines, "", note])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--studies", type=int, default=1000)
    options = parser.parse_args()
    rows = [measure(scenario, *seeds, options.studies) for scenario in SCENARIOS for seeds in SEEDS]
    result = {"studies": options.studies, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
