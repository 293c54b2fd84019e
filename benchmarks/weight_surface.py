"""Simulated studies on known surfaces over three weights: error and coverage of the surface, and regret of its picks.

    python benchmarks/weight_surface.py --json FILE [--studies 200]

The logit of the chance of a right answer is a known function of the weights' shares, plus the level of each seed. Arms
lie on a grid of weights, and each seed gives 800 answers. The package's Gaussian process is compared with Scheffé's
quadratic model. This model has the same known errors and a lack of fit, and is averaged over the unknown variance of
that lack of fit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import t as student

from reward_ablation.analysis.statistics.contrasts import with_products
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.design.surface.check import RULES, check_table, predict_left_out
from reward_ablation.design.surface.model import AMPLITUDES, MeasuredArms, Scale, Surface
from reward_ablation.design.surface.tables import compositions
from reward_ablation.design.surface.words import is_ahead

Truth = Callable[[np.ndarray], np.ndarray]

DOCUMENT = "weight_surface.md"
SEEDS, SPREAD, QUESTIONS, ANSWERS, CONFIDENCE = 2, 0.15, 200, 800, 0.95

#: Number of intervals along an edge of the grid of arms: 10 and 15 arms.
EDGES = (3, 4)

#: Points at which truth and surface are compared.
GRID = compositions(20, 3) / 20

#: Logits of the chance of a right answer, as functions of (points, 3) shares.
SURFACES: dict[str, Truth] = {
    "flat": lambda shares: np.full(len(shares), 0.4),
    "linear": lambda shares: shares @ np.array([1.5, 0.3, -0.8]),
    "interaction": lambda shares: shares @ np.array([0.5, -0.5, -0.5]) + 4 * shares[:, 0] * shares[:, 1],
    "smooth hill": lambda shares: (
        -0.5 + 2 * np.exp(-np.square(shares - np.array([0.55, 0.3, 0.15])).sum(axis=1) / (2 * 0.3**2))
    ),
    "cliff": lambda shares: 1.0 * (shares[:, 0] > 0.05) + 0.5 * shares[:, 1] - 0.3,
}


def simulated(truth: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> MeasuredArms:
    """The arms of one study. The spread between seeds is estimated from the study itself."""
    chance = expit(truth[:, None] + rng.normal(0, SPREAD, (len(truth), SEEDS)))
    values = rng.binomial(ANSWERS, chance) / ANSWERS
    names = [str(arm) for arm in range(len(truth))]
    means = SeedMeans(names, list(range(SEEDS)), values[None], [SHARE], QUESTIONS)
    spread = float(np.sqrt(means.squares[0].sum() / means.degrees.sum()))
    seeds = np.full(len(truth), SEEDS)
    return MeasuredArms(
        names, shares, values.mean(axis=1), seeds, np.full(len(truth), spread), spread, Scale(SHARE, QUESTIONS)
    )


def quadratic(arms: MeasuredArms, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance at points by weighted least squares, averaged over the variance of the lack of fit."""
    design, new = with_products(arms.shares), with_products(points)
    means, variances, evidence = [], [], []
    for extra in np.square(arms.values.std() * AMPLITUDES):
        weights = 1 / (arms.variances + extra)
        normal = design.T * weights @ design
        inverse = np.linalg.inv(normal)
        fitted = inverse @ (design.T * weights @ arms.values)
        rest = arms.values - design @ fitted
        evidence.append(-0.5 * (np.linalg.slogdet(normal)[1] - np.log(weights).sum() + weights @ rest**2))
        means.append(new @ fitted)
        variances.append(extra + np.einsum("pk,kl,pl->p", new, inverse, new))
    likelihood = np.exp(np.array(evidence) - max(evidence))
    likelihood /= likelihood.sum()
    mean = likelihood @ np.array(means)
    return mean, likelihood @ (np.array(variances) + (np.array(means) - mean) ** 2)


def of_study(truth: Truth, shares: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """Errors, regrets and coverage in one simulated study."""
    arms = simulated(truth(shares), shares, rng)
    expected, of_grid = expit(truth(shares)), expit(truth(GRID))
    surface = Surface(arms)
    check = check_table(arms, predict_left_out(surface, CONFIDENCE), higher_is_better=True).set_index("rule")
    map_ = surface.predict(GRID)
    low, high = map_.interval(CONFIDENCE)
    best = float(surface.predict(shares).estimate.max())
    pick = int(map_.improvement(best, higher_is_better=True).argmax())
    mean, variance = quadratic(arms, GRID)
    margin = student.ppf((1 + CONFIDENCE) / 2, max(len(shares) - 6, 1)) * np.sqrt(variance)
    trained = expected[int(arms.means.argmax())]
    suggests = is_ahead(check.reset_index())
    return {
        **{f"error {rule}": check.loc[rule, "error"] for rule in RULES},
        **{f"regret {rule}": check.loc[rule, "regret"] for rule in RULES},
        "covers arms": check.loc["surface", "coverage"],
        "error map": float(np.sqrt(np.square(map_.estimate - of_grid).mean())),
        "covers map": float(((low <= of_grid) & (of_grid <= high)).mean()),
        "error quadratic": float(np.sqrt(np.square(expit(mean) - of_grid).mean())),
        "covers quadratic": float(((expit(mean - margin) <= of_grid) & (of_grid <= expit(mean + margin))).mean()),
        "suggests": float(suggests),
        "best arm": of_grid.max() - trained,
        "with the suggested": of_grid.max() - (max(trained, of_grid[pick]) if suggests else trained),
        "with a random one": of_grid.max() - np.maximum(trained, of_grid).mean(),
    }


def table(result: dict[str, Any]) -> str:
    """Markdown: a table of errors and coverage, and a table of regrets."""
    first = [
        "| truth | arms | error of left-out arms: surface | nearest | alone | mean | held, % | error of the map "
        "| held, % | quadratic: error of the map | held, % |",
        "| --- " * 11 + "|",
    ]
    second = [
        "| truth | arms | regret of left-out arms: surface | nearest | alone | mean | suggests, % "
        "| behind the optimum: best arm | with a random arm more | with the suggested arm more |",
        "| --- " * 10 + "|",
    ]
    for row in result["rows"]:
        mean, names = row["mean"], f"| {row['truth']} | {row['arms']} |"
        errors = [f"{mean[f'error {rule}']:.3f}" for rule in RULES]
        held = [f"{100 * mean[f'covers {what}']:.1f}" for what in ("arms", "map", "quadratic")]
        maps = [f"{mean[f'error {what}']:.3f}" for what in ("map", "quadratic")]
        first.append(f"{names} {' | '.join([*errors, held[0], maps[0], held[1], maps[1], held[2]])} |")
        regrets = [f"{mean[f'regret {rule}']:.3f}" for rule in RULES]
        behind = [f"{mean[name]:.3f}" for name in ("best arm", "with a random one", "with the suggested")]
        suggests = f"{100 * mean['suggests']:.0f}"
        second.append(f"{names} {' | '.join([*regrets, suggests, *behind])} |")
    note = f"Means over {result['studies']:,} simulated studies of {SEEDS} seeds; errors and regrets in accuracy."
    return "\n".join([note, "", *first, "", *second])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--studies", type=int, default=200)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, truth in SURFACES.items():
        for edge in EDGES:
            shares, rng = compositions(edge, 3) / edge, np.random.default_rng([len(rows), 22])
            studies = [of_study(truth, shares, rng) for _ in range(options.studies)]
            mean = {key: float(np.mean([study[key] for study in studies])) for key in studies[0]}
            rows.append({"truth": name, "arms": len(shares), "mean": mean})
    result = {"studies": options.studies, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
