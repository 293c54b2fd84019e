"""Power and interval lengths: the forecast of `reward-ablation power` against simulated studies.

    python benchmarks/power.py --json FILE [--studies 1600]

Studies of four arms are simulated and analysed as in benchmarks/coverage_of_studies.py, by the code that makes the
tables. The forecast uses the mean variance components of many pilots of 200 questions with 4 samples, also for designs
of other sizes. The second table has forecasts from single pilots of two or three seeds.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from coverage_of_studies import BATCH, CONFIDENCE, POWER, QUESTIONS, SAMPLES, Scenario, estimated, simulated

from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.design import variances
from reward_ablation.design.power import RANGE, Analysis, Design, Plan, Variance
from reward_ablation.design.variances import Components, SeedPart

ARMS = ["0", "1", "2", "3"]
PAIRS = [(arm, "0") for arm in ARMS[1:]]
ANALYSIS = Analysis(PAIRS, CONFIDENCE, True)

#: Seeds of each pilot of which mean components are computed.
PILOT_SEEDS = 20

#: Number of pilots, and of new studies, of the second table.
PILOTS = 100

ONE_ARM = Scenario("one arm 10 points higher", (0.6, 0.6, 0.6, 0.7), (0.2, 0.2, 0.2, 0.2))
CORRELATED = Scenario("spread .4, correlation .7", (0.5, 0.55, 0.6, 0.7), (0.4, 0.4, 0.4, 0.4), 0.7)
HIGH = Scenario("accuracies .90 to .97", (0.9, 0.92, 0.95, 0.97), (0.2, 0.2, 0.2, 0.2))
CASES = [
    *((POWER, Design(seeds, QUESTIONS, SAMPLES)) for seeds in (2, 3, 5)),
    *((POWER, Design(3, *size)) for size in ((QUESTIONS, 1), (2 * QUESTIONS, SAMPLES))),
    *((scenario, Design(4, QUESTIONS, SAMPLES)) for scenario in (ONE_ARM, CORRELATED, HIGH)),
]


def pilot(values: np.ndarray, samples: int) -> Components:
    """Variance components of one study from its question means, an (arms, seeds, questions) array."""
    by_arm = {arm: dict(enumerate(of_arm)) for arm, of_arm in zip(ARMS, values, strict=True)}
    sample = {
        arm: float((of_arm * (1 - of_arm)).mean() * samples / (samples - 1))
        for arm, of_arm in zip(ARMS, values, strict=True)
    }
    return variances.estimate_components(by_arm, samples, sample, SHARE, PAIRS, "pilot")


def mean_components(scenario: Scenario) -> Components:
    """Mean components of 300 large pilots, whose errors cancel."""
    rng = generator("mean components", *map(str, scenario))
    pilots = [pilot(values, SAMPLES) for _ in range(3) for values in simulated(scenario, PILOT_SEEDS, rng)]

    def mean(name: str) -> dict[Any, float]:
        return {key: float(np.mean([getattr(of, name)[key] for of in pilots])) for key in getattr(pilots[0], name)}

    parts = np.array([of.seed for of in pilots]).mean(axis=0)
    names = ("means", "interaction", "sample", "question")
    seed = SeedPart(parts[0], parts[1], np.inf, parts[3])
    return replace(pilots[0], seed=seed, flagged=(), **{name: mean(name) for name in names})


def analysed(scenario: Scenario, design: Design, studies: int) -> tuple[np.ndarray, np.ndarray]:
    """Rejections by the Holm tests of the tables, and lengths of their intervals: two (contrasts, studies) arrays."""
    rng = generator("power", *map(str, scenario), *map(str, design))
    identity, rejected, lengths = np.eye(len(ARMS)), [], []
    for batch in range(studies // BATCH):
        values = simulated(scenario, design.seeds, rng, design.questions, design.samples)
        means = SeedMeans(ARMS, list(range(design.seeds)), values.mean(axis=3), [SHARE] * BATCH, design.questions)
        ends = [
            estimated(values, identity[arm] - identity[0], "moderated", means, f"batch {batch}")
            for arm in range(1, len(ARMS))
        ]
        rejected.append(np.apply_along_axis(holm, 0, np.array([p for _, _, p in ends])) < 1 - CONFIDENCE)
        lengths.append(np.array([high - low for low, high, _ in ends]))
    return np.concatenate(rejected, axis=1), np.concatenate(lengths, axis=1)


def compare(scenario: Scenario, design: Design, components: Components, studies: int) -> dict[str, Any]:
    """Power and mean length of each contrast, simulated in full and forecast."""
    rejected, lengths = analysed(scenario, design, studies)
    forecast = Plan(components, ANALYSIS).simulated(design, Variance.ESTIMATED)
    truths = np.array(scenario.accuracies[1:]) - scenario.accuracies[0]
    return {
        **{"scenario": scenario.name, "design": design, "truths": truths.tolist()},
        **{"power": rejected.mean(axis=1).tolist(), "length": lengths.mean(axis=1).tolist()},
        "power_foreseen": forecast.found(truths).mean(axis=1).tolist(),
        "length_foreseen": [forecast.lengths(n, truth).mean() for n, truth in enumerate(truths)],
    }


def from_single_pilots(scenario: Scenario, seeds: int) -> dict[str, Any]:
    """How often the 80 % ranges of single pilots hold the power and the interval length of a study of four seeds."""
    rng = generator("single pilots", str(seeds))
    design = Design(4, QUESTIONS, SAMPLES)
    rejected, lengths = analysed(scenario, design, 10 * BATCH)
    held_power, held_length, widths = [], [], []
    pilots = [values for _ in range(PILOTS // BATCH) for values in simulated(scenario, seeds, rng)]
    for number, values in enumerate(pilots):
        components = pilot(values, SAMPLES)
        plan = Plan(replace(components, means=dict(zip(ARMS, scenario.accuracies, strict=True))), ANALYSIS)
        low, high = np.quantile(plan.simulated(design, Variance.PROBABLE).lengths(0, 0.0), RANGE)
        held_length.append(low <= lengths[0, number] <= high)
        truths = np.array(scenario.accuracies[1:]) - scenario.accuracies[0]
        ends = [plan.simulated(design, of).found(truths)[1].mean() for of in (Variance.HIGH, Variance.LOW)]
        held_power.append(ends[0] <= rejected[1].mean() <= ends[1])
        widths.append(high / low)
    return {
        **{"seeds": seeds, "power": np.mean(held_power), "length": np.mean(held_length)},
        "ratio": float(np.median(widths)),
    }


def worst(result: dict[str, Any]) -> float:
    """Largest difference between a forecast power and the simulated power."""
    return max(float(np.abs(np.subtract(row["power"], row["power_foreseen"])).max()) for row in result["cases"])


def table(result: dict[str, Any]) -> str:
    """Both tables, each with an explanation of its numbers."""
    lines = [
        "| arms | seeds | questions × samples | differences | power | forecast | length | forecast |",
        "| --- " * 8 + "|",
    ]
    for row in result["cases"]:
        seeds, questions, samples = row["design"]
        name = "accuracies .50 to .70" if row["scenario"] == POWER.name else row["scenario"]
        parts = [name, str(seeds), f"{questions} × {samples}"]
        parts.append(" ".join(f"{truth:.2f}" for truth in row["truths"]))
        for quantity, digits in (("power", 2), ("power_foreseen", 2), ("length", 3), ("length_foreseen", 3)):
            parts.append(" ".join(f"{value:.{digits}f}" for value in row[quantity]))
        lines.append(f"| {' | '.join(parts)} |")
    note = (
        f"Powers and mean lengths of {result['studies']:,} simulated studies, beside the forecasts. The three numbers "
        "of a cell belong to the three differences. A forecast power is at most "
        f"{100 * worst(result):.1f} points from the simulated power."
    )
    lines += [
        "",
        note,
        "",
        "| seeds of the pilot | range holds the power | range holds the length "
        "| upper end of the range over lower end |",
    ]
    lines.append("| --- " * 4 + "|")
    for row in result["pilots"]:
        lines.append(
            f"| {row['seeds']} | {100 * row['power']:.0f} % | {100 * row['length']:.0f} % | {row['ratio']:.1f} |"
        )
    return "\n".join(
        [*lines, "", f"80 % ranges for a study of four seeds, one from each of {PILOTS} pilots of four arms."]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--studies", type=int, default=1600)
    options = parser.parse_args()
    components = {scenario.name: mean_components(scenario) for scenario in (POWER, ONE_ARM, CORRELATED, HIGH)}
    cases = []
    for scenario, design in CASES:
        cases.append(compare(scenario, design, components[scenario.name], options.studies))
        print(json.dumps(cases[-1]), flush=True)
    pilots = [from_single_pilots(POWER, seeds) for seeds in (2, 3)]
    result = {"studies": options.studies, "cases": cases, "pilots": pilots}
    if options.json:
        options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
