"""Size of each arm's advantages: arms whose advantages differ in size take steps of different size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.seed_intervals import over_seeds


def mean_squares(rollouts: pd.DataFrame) -> dict[int, pd.Series]:
    """Mean square of the advantages of all completions of a step, by seed and step.

    `rollouts` has the columns seed, step and advantage.
    """
    squares = rollouts["advantage"].astype(float).pow(2)
    means = squares.groupby([rollouts["seed"], rollouts["step"]], sort=True).mean()
    return {seed: means.loc[seed] for seed in rollouts["seed"].unique().tolist()}


def advantage_size(squares: Mapping[str, Mapping[int, pd.Series]], baseline: str, confidence: float) -> pd.DataFrame:
    """Root mean square of each arm's advantages, mean over seeds, and its ratio to that of the baseline.

    Intervals are by Student's t over seeds, or over the steps of a single seed. The ratio is the geometric mean over
    the seeds that both arms have; its interval is computed for the logarithm. Completions without an advantage count
    as 0. `squares` has the `mean_squares` of each arm.
    """
    rows = []
    for arm, by_seed in squares.items():
        seeds = sorted(by_seed)
        values, influence = _sizes(by_seed, seeds)
        size = over_seeds(values[None], (values[:, None] * (1 + influence))[None], confidence).clipped(0, np.inf)
        common_seeds = [seed for seed in seeds if seed in squares.get(baseline, {})]
        rows.append(
            {
                "arm": arm,
                **{name: column[0] for name, column in size._asdict().items()},
                **_ratio(by_seed, squares.get(baseline, {}), common_seeds, confidence),
                "seeds": len(seeds),
                "steps": max(len(of_seed) for of_seed in by_seed.values()),
            }
        )
    return pd.DataFrame(rows)


def _sizes(by_seed: Mapping[int, pd.Series], seeds: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """(S,) sizes, and (S, T) relative influences of the steps on them (the delta method); NaN for unknown steps."""
    table = pd.DataFrame({seed: by_seed[seed] for seed in seeds}).to_numpy(dtype=float).T
    means = np.nanmean(table, axis=1) if table.size else np.full(len(seeds), np.nan)
    relative = np.divide(table, means[:, None], out=np.ones(table.shape), where=means[:, None] > 0)
    return np.sqrt(means), (relative - 1) / 2


def _ratio(
    own: Mapping[int, pd.Series], other: Mapping[int, pd.Series], seeds: list[int], confidence: float
) -> dict[str, float]:
    """Ratio of sizes with its interval; NaN where a size is 0."""
    names = ("ratio", "ratio_low", "ratio_high")
    if not seeds:
        return dict.fromkeys(names, np.nan)
    (values, own_influence), (others, other_influence) = _sizes(own, seeds), _sizes(other, seeds)
    if not (values > 0).all() or not (others > 0).all():
        return dict.fromkeys(names, np.nan)
    logarithms = np.log(values / others)
    same = own_influence.shape == other_influence.shape
    influence = logarithms[:, None] + (own_influence - other_influence if same else np.full((len(seeds), 1), np.nan))
    ratio = over_seeds(logarithms[None], influence[None], confidence)
    return {name: float(np.exp(column[0])) for name, column in zip(names, ratio[:3], strict=True)}
