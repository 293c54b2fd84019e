"""Simulated studies of four arms: coverage and length of intervals, errors and power of Holm's tests.

    python benchmarks/coverage_of_studies.py --json FILE [--studies 1000]

Each arm answers 200 questions with 4 samples. The chance of a right answer is logistic in the question's difficulty, a
level of arm and seed, and an interaction of both, as in benchmarks/coverage.py. The methods differ in the variance
between seeds. `moderated` estimates it in part from the other arms, `per_arm` from the arm or pair alone, and `pooled`
from all arms as if their seeds differed alike. `t` is Student's t over the seeds' means. `questions` has no variance
between seeds: its standard error is that over questions of the mean over seeds (Miller, "Adding Error Bars to Evals",
2024, arXiv 2411.00640).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from coverage import DIFFICULTY, INTERACTION
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import t as student

from reward_ablation.analysis.statistics.estimates import distribution, holm, intervals, p_values, resampled_seeds
from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.statistics.seed_variance import SeedMeans

QUESTIONS, SAMPLES, RESAMPLES, CONFIDENCE = 200, 4, 500, 0.95
SEEDS = [2, 3, 5]
METHODS = ["moderated", "per_arm", "t", "questions"]
POOLED = "pooled"

#: Number of studies that are simulated together and share one set of resamples.
BATCH = 100

#: Share of seeds that collapse, and the size of a collapse on the logistic scale.
COLLAPSING, COLLAPSE = 0.2, 3.0


class Scenario(NamedTuple):
    """Accuracies of the arms (the first is the baseline), and standard deviations of their seeds on the logistic scale.

    All fields but the last two seed the simulation, the name too.
    """

    name: str
    accuracies: tuple[float, float, float, float] = (0.6, 0.6, 0.6, 0.6)
    spreads: tuple[float, float, float, float] = (0.1, 0.1, 0.1, 0.1)
    correlation: float = 0.0
    collapsing: bool = False
    questions: int = QUESTIONS
    switching: bool = False  # half of the seeds answer a quarter of the questions otherwise; all else is right


ALIKE = [
    Scenario("alike, spread .1"),
    Scenario("alike, spread .4", spreads=(0.4, 0.4, 0.4, 0.4)),
    Scenario("alike, spread .4, correlation .7", spreads=(0.4, 0.4, 0.4, 0.4), correlation=0.7),
    Scenario("accuracies .02 to .98, spread .1", (0.02, 0.3, 0.7, 0.98)),
    Scenario("accuracies .02 to .98, spread .4", (0.02, 0.3, 0.7, 0.98), (0.4, 0.4, 0.4, 0.4)),
]
UNLIKE = [
    Scenario("last arm 2 times .1", spreads=(0.1, 0.1, 0.1, 0.2)),
    Scenario("last arm 4 times .1", spreads=(0.1, 0.1, 0.1, 0.4)),
    Scenario("last arm 8 times .1", spreads=(0.1, 0.1, 0.1, 0.8)),
    Scenario("baseline 8 times .1", spreads=(0.8, 0.1, 0.1, 0.1)),
    Scenario("a fifth of the seeds lose 3 logits", collapsing=True),
]
SIZES = [
    *(
        Scenario(f"last arm {last:g}, others {others:g}", spreads=(others, others, others, last), questions=questions)
        for others, last in ((0.1, 0.4), (0.2, 0.8))
        for questions in (200, 1319, 5000)
    ),
    Scenario("half of the seeds switch", (0.875,) * 4, switching=True),
]
OF_POOLED = {
    "alike, spread .1",
    "alike, spread .4",
    "last arm 4 times .1",
    "last arm 8 times .1",
    "baseline 8 times .1",
}
POWER = Scenario("power", (0.5, 0.55, 0.6, 0.7), (0.2, 0.2, 0.2, 0.2))


def centre(accuracy: float, spread: float, collapsing: bool) -> float:
    """Mean of the logits at which the mean chance is `accuracy`."""
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()
    share = COLLAPSING if collapsing else 0.0

    def missed(middle: float) -> float:
        at = middle + float(np.sqrt(DIFFICULTY**2 + INTERACTION**2 + spread**2)) * points
        return float((1 - share) * weights @ expit(at) + share * weights @ expit(at - COLLAPSE) - accuracy)

    return float(brentq(missed, -20, 20))


def simulated(
    scenario: Scenario, seeds: int, rng: np.random.Generator, questions: int = QUESTIONS, samples: int = SAMPLES
) -> np.ndarray:
    """Question means of `BATCH` studies: (studies, arms, seeds, questions) array."""
    if scenario.switching:
        values = np.ones((BATCH, len(scenario.accuracies), seeds, questions))
        values[..., : questions // 4] = rng.random(values.shape[:3])[..., None] < 0.5
        return values
    difficulty = rng.normal(0, DIFFICULTY, (BATCH, 1, questions))
    common = rng.normal(0, 1, (BATCH, seeds, 1))
    arms = []
    for accuracy, spread in zip(scenario.accuracies, scenario.spreads, strict=True):
        own = rng.normal(0, 1, (BATCH, seeds, 1))
        level = spread * (np.sqrt(scenario.correlation) * common + np.sqrt(1 - scenario.correlation) * own)
        if scenario.collapsing:
            level = level - COLLAPSE * (rng.random((BATCH, seeds, 1)) < COLLAPSING)
        interaction = rng.normal(0, INTERACTION, (BATCH, seeds, questions))
        chance = expit(centre(accuracy, spread, scenario.collapsing) + difficulty + level + interaction)
        arms.append(rng.binomial(samples, chance) / samples)
    return np.stack(arms, axis=1)


def estimated(
    values: np.ndarray, contrast: np.ndarray, method: str, means: SeedMeans, label: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of intervals and p-values of a contrast of arms, in each study."""
    of_contrast = np.einsum("a,masq->msq", contrast, values)
    studies, seeds, _ = of_contrast.shape
    estimate = of_contrast.mean(axis=(1, 2))
    if method in ("t", "questions"):
        axis, degrees = (2, seeds - 1) if method == "t" else (1, np.inf)
        sample = of_contrast.mean(axis=axis)  # a value of each seed, or of each question
        error = sample.std(axis=1, ddof=1) / np.sqrt(sample.shape[1])
        half = error * student.ppf((1 + CONFIDENCE) / 2, degrees)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = 2 * student.sf(np.abs(estimate) / error, degrees)
        return estimate - half, estimate + half, np.nan_to_num(p, nan=1.0)
    coefficients = dict(zip(means.arms, contrast, strict=True))
    lends = method in ("moderated", POOLED)
    variance = replace(means, lends=lends).of_contrast(coefficients, means.seeds, pooled=method == POOLED)
    limits = (np.full(studies, float(contrast.min() < 0) * -1.0), np.ones(studies))
    of = distribution(of_contrast, resampled_seeds(of_contrast, label, RESAMPLES), label, limits, variance)
    return *intervals(of, CONFIDENCE), p_values(of)


def measure(scenario: Scenario, seeds: int, studies: int) -> dict[str, Any]:
    """Coverage and mean length by method, arm and difference; shares of studies in which Holm's tests reject."""
    rng = generator("coverage of studies", *map(str, scenario[:5]), str(seeds))
    arms, identity = len(scenario.accuracies), np.eye(len(scenario.accuracies))
    truths = {f"accuracy {arm}": (identity[arm], scenario.accuracies[arm]) for arm in range(arms)}
    for arm in range(1, arms):
        truth = scenario.accuracies[arm] - scenario.accuracies[0]
        truths[f"difference {arm}"] = (identity[arm] - identity[0], truth)
    held: dict[str, dict[str, list[np.ndarray]]] = {method: {} for method in [*METHODS, POOLED]}
    for batch in range(studies // BATCH):
        values = simulated(scenario, seeds, rng, scenario.questions)
        names, numbers = [str(arm) for arm in range(arms)], list(range(seeds))
        means = SeedMeans(names, numbers, values.mean(axis=3), [SHARE] * BATCH, scenario.questions)
        for method, of_method in held.items():
            p = []
            for name, (contrast, truth) in truths.items():
                low, high, of_contrast = estimated(values, contrast, method, means, f"batch {batch}")
                of_method.setdefault(f"holds {name}", []).append((low <= truth) & (truth <= high))
                of_method.setdefault(f"length {name}", []).append(high - low)
                if name.startswith("difference"):
                    p.append(of_contrast)
            of_method.setdefault("tiny", []).append(np.mean(np.array(p) < 0.001, axis=0))
            corrected = np.apply_along_axis(holm, 0, np.array(p))
            rejected = corrected < 1 - CONFIDENCE
            of_method.setdefault("any found", []).append(rejected.any(axis=0))
            for arm, of_arm in enumerate(rejected, start=1):
                of_method.setdefault(f"found {arm}", []).append(of_arm)
    return {
        "seeds": seeds,
        **{
            method: {name: float(np.mean(values)) for name, values in of_method.items()}
            for method, of_method in held.items()
        },
    }


def of_kind(cell: dict[str, float], what: str, kind: str) -> list[float]:
    return [value for name, value in cell.items() if name.startswith(f"{what} {kind}")]


def coverage_table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown: one row per scenario and number of seeds."""
    lines = [
        "| arms | seeds | accuracy: moderated | per arm | t | questions | length | difference: moderated | per arm | t "
        "| questions | length | any p < .05: moderated | per arm |",
        "| --- " * 14 + "|",
    ]
    for row in rows:
        for cell in row["cells"]:
            parts = [row["scenario"][0], str(cell["seeds"])]
            for kind in ("accuracy", "difference"):
                for method in METHODS:
                    shares = of_kind(cell[method], "holds", kind)
                    parts.append(f"{100 * np.mean(shares):.1f} ({100 * min(shares):.1f})")
                own, alone = (np.mean(of_kind(cell[method], "length", kind)) for method in ("moderated", "per_arm"))
                parts.append(f"{own / alone:.2f}")
            equal = len(set(row["scenario"][1])) == 1
            parts += [f"{100 * cell[method]['any found']:.1f}" if equal else "" for method in ("moderated", "per_arm")]
            lines.append(f"| {' | '.join(parts)} |")
    return lines


def pooled_table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown: coverage and length of differences if the seeds of all arms count as alike."""
    lines = ["| arms | seeds | moderated | pooled | length, pooled over moderated |", "| --- " * 5 + "|"]
    for row in rows:
        for cell in row["cells"]:
            shares = [of_kind(cell[method], "holds", "difference") for method in ("moderated", POOLED)]
            lengths = [np.mean(of_kind(cell[method], "length", "difference")) for method in ("moderated", POOLED)]
            held = " | ".join(f"{100 * np.mean(of):.1f} ({100 * min(of):.1f})" for of in shares)
            lines.append(f"| {row['scenario'][0]} | {cell['seeds']} | {held} | {lengths[1] / lengths[0]:.2f} |")
    return lines


def sizes_table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown: coverage by number of questions, and how often a difference has p < .001."""
    lines = ["| spread of seeds | questions | seeds | accuracy | difference | p < .001, % |", "| --- " * 6 + "|"]
    for row in rows:
        scenario = Scenario(*row["scenario"])
        for cell in row["cells"]:
            shares = [of_kind(cell["moderated"], "holds", kind) for kind in ("accuracy", "difference")]
            held = [f"{100 * np.mean(of):.1f} ({100 * min(of):.1f})" for of in shares]
            tiny = f"{100 * cell['moderated']['tiny']:.2f}" if len(set(scenario.accuracies)) == 1 else ""
            lines.append(
                f"| {scenario.name} | {scenario.questions:,} | {cell['seeds']} | {' | '.join(held)} | {tiny} |"
            )
    return lines


def power_table(cells: list[dict[str, Any]]) -> list[str]:
    """Markdown: power of Holm's tests for differences of 5, 10 and 20 points, by number of seeds."""
    lines = ["| seeds | +.05: per arm | moderated | +.10: per arm | moderated | +.20: per arm | moderated |"]
    lines.append("| --- " * 7 + "|")
    for cell in cells:
        shares = [f"{cell[method][f'found {arm}']:.2f}" for arm in (1, 2, 3) for method in ("per_arm", "moderated")]
        lines.append(f"| {cell['seeds']} | {' | '.join(shares)} |")
    return lines


def table(result: dict[str, Any]) -> str:
    """Both tables, each with an explanation of its numbers."""
    note = (
        f"Percent of {result['studies']:,} simulated studies whose 95 % interval holds the truth: the mean over the "
        "arms, or over the differences to the first arm, with the worst of them in brackets. Length: length of the "
        "moderated intervals over that of the intervals `per_arm`. Any p < .05: percent of studies in which Holm's "
        "tests call some difference significant although no arm differs."
    )
    power = "Power of Holm's tests of three differences. Seeds have a spread of .2 on the logistic scale:"
    sizes = "Coverage of the moderated intervals by the number of questions, which no arm's accuracy depends on:"
    pooled = "Coverage and length of differences if the seeds of all arms count as alike (`pooled`):"
    parts = [[note], [power], power_table(result["power"]), [sizes], sizes_table(result["sizes"])]
    parts += [[pooled], pooled_table([row for row in result["coverage"] if row["scenario"][0] in OF_POOLED])]
    return "\n".join([*coverage_table(result["coverage"]), *(line for part in parts for line in ("", *part))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for scenario in ALIKE + UNLIKE:
        cells = [measure(scenario, seeds, options.studies) for seeds in options.seeds]
        rows.append({"scenario": scenario, "cells": cells})
        print(*coverage_table(rows[-1:])[2:], sep="\n", flush=True)
    power = [measure(POWER, seeds, options.studies) for seeds in options.seeds]
    sizes: list[dict[str, Any]] = []
    for scenario in SIZES:
        cells = [measure(scenario, seeds, options.studies) for seeds in options.seeds]
        sizes.append({"scenario": scenario, "cells": cells})
        print(*sizes_table(sizes[-1:])[2:], sep="\n", flush=True)
    result = {"studies": options.studies, "coverage": rows, "power": power, "sizes": sizes}
    if options.json:
        options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
