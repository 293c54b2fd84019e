"""Correlations between the components' scores of completions of one problem."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from reward_ablation.analysis.statistics.intervals import (
    block_length,
    block_shares,
    generator,
    percentile_interval,
    resampling_shares,
)
from reward_ablation.analysis.training.signals_by_step import centred, groups_of, labels_of

#: Sums of a pair: of products of the two scores' deviations from their group's mean, and of their squares.
SUMS = ["ab", "aa", "bb"]


def pair_sums(rollouts: pd.DataFrame, components: list[str], single: bool = False) -> pd.DataFrame:
    """Sums over a step's completions of products of deviations from the group's mean, by pair of components.

    `rollouts` has the columns step, problem_id and score_<component>. A completion counts for a pair where both
    components have scored it. `single` says that a problem has one rollout: the completions of a step are then the
    group. The result has a row per step and columns (component_a, component_b, one of `SUMS`).
    """
    values, step = np.unique(rollouts["step"].to_numpy(), return_inverse=True)
    group = groups_of(rollouts, step, single)
    scores = {name: rollouts[f"score_{name}"].to_numpy(dtype=float) for name in components}
    columns: dict[tuple[str, str, str], np.ndarray] = {}
    for first, second in combinations(components, 2):
        both = ~np.isnan(scores[first]) & ~np.isnan(scores[second])
        groups = int(group.max(initial=-1)) + 1
        a, b = (centred(scores[name][both], group[both], groups) for name in (first, second))
        for name, products in zip(SUMS, (a * b, a * a, b * b), strict=True):
            columns[first, second, name] = np.bincount(step[both], weights=products, minlength=len(values))
    index = pd.Index(values, name="step")
    if not columns:
        return pd.DataFrame(index=index)
    names = labels_of(("component_a", "component_b", "sum"), *columns)
    return pd.DataFrame(np.array(list(columns.values())).T, index=index, columns=names)


def component_correlations(sums: dict[int, pd.DataFrame], arm: str, resamples: int, confidence: float) -> pd.DataFrame:
    """Pooled within-group correlation of each pair of components in one arm, with bootstrap intervals.

    The correlation is that of deviations from the group's mean, over all groups, steps and seeds together. So it says
    how scores differ among completions of one problem, and easy problems do not raise it. Resamples draw seeds, and
    blocks of neighbouring steps once for all seeds.

    `sums` has the `pair_sums` of each seed's run. Rows (component_a, component_b); the estimate is null where one of
    the two never differs within a group.
    """
    steps = sorted(set().union(*(table.index for table in sums.values())))
    first = next(iter(sums.values()))
    if not steps or not len(first.columns):
        return pd.DataFrame()
    values = np.stack([table.reindex(steps).fillna(0.0).to_numpy() for table in sums.values()])  # (S, T, 3 * pairs)
    rng = generator("component_correlations", arm)
    seed_shares = resampling_shares(resamples, len(sums), rng)
    step_shares = block_shares(resamples, len(steps), block_length(len(steps)), rng)
    drawn = np.zeros((resamples, values.shape[2]))
    for of_seed, shares in zip(values, seed_shares.T, strict=True):
        drawn += shares[:, None] * (step_shares @ of_seed)
    estimates, resampled = (correlations(table) for table in (values.sum(axis=(0, 1))[None], drawn))
    low, high = percentile_interval(resampled, confidence)
    names = first.columns.to_frame(index=False).drop_duplicates(["component_a", "component_b"])
    return pd.DataFrame(
        {
            "arm": arm,
            "component_a": names["component_a"].to_numpy(),
            "component_b": names["component_b"].to_numpy(),
            "estimate": estimates[0],
            "low": low,
            "high": high,
            "seeds": len(sums),
            "steps": len(steps),
        }
    )


def correlations(sums: np.ndarray) -> np.ndarray:
    """Correlations from (..., 3 * pairs) `SUMS`; NaN where one of the two scores does not vary."""
    products, first, second = (sums[..., first_column::3] for first_column in range(3))
    sizes = np.sqrt(np.maximum(first, 0) * np.maximum(second, 0))
    ratio = np.divide(products, sizes, out=np.full(products.shape, np.nan), where=sizes > 0)
    return np.clip(ratio, -1.0, 1.0)
