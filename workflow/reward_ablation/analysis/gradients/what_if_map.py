"""Map over weights: first-order effects of steps under these weights on every component."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.seed_intervals import means_over_steps_and_seeds
from reward_ablation.analysis.study_file import StudyArm

#: Points along an edge of the map for two and three components, and for more, of which only edges are shown.
OF_TWO, OF_THREE, OF_MORE = 21, 13, 9


def weight_grid(components: int) -> np.ndarray:
    """Points of the weight simplex as (points, components) array: shares of the weights, at least 0 and 1 in sum.

    One component: a point. Two: a line. Three: a triangle. More: the edges between every two components, on which all
    other weights are 0.
    """
    if components == 1:
        return np.ones((1, 1))
    if components == 3:
        steps = OF_THREE - 1
        counts = [(a, b, steps - a - b) for a in range(steps, -1, -1) for b in range(steps - a, -1, -1)]
        return np.array(counts) / steps
    points = OF_TWO if components == 2 else OF_MORE
    corners = np.eye(components)
    if components == 2:
        return np.linspace(corners[0], corners[1], points)
    inner = np.linspace(0, 1, points)[1:-1, None]
    edges = [corners[a] * (1 - inner) + corners[b] * inner for a, b in combinations(range(components), 2)]
    return np.concatenate([corners, *edges])


def signs_of_weights(arms: list[StudyArm], components: list[str]) -> np.ndarray:
    """-1 for a component that no arm weighs positively and some arm negatively, such as a penalty; else 1."""
    weights = np.array([[arm.weights[name] for name in components] for arm in arms])
    return np.where((weights <= 0).all(axis=0) & (weights < 0).any(axis=0), -1.0, 1.0)


def by_seed_and_step(values: dict[tuple[int, int], np.ndarray]) -> tuple[np.ndarray, list[int], list[int]]:
    """(..., seeds, steps) array of arrays by (seed, step), NaN where there is none; the seeds; and the steps."""
    seeds, steps = (sorted({key[place] for key in values}) for place in (0, 1))
    first = next(iter(values.values()))
    stacked = np.full((*first.shape, len(seeds), len(steps)), np.nan)
    for (seed, step), array in values.items():
        stacked[..., seeds.index(seed), steps.index(step)] = array
    return stacked, seeds, steps


def map_table(
    values: dict[tuple[int, int], np.ndarray], arm: str, components: list[str], confidence: float
) -> pd.DataFrame:
    """Rows (point, component) of the effects under one arm's policy; `step` is the last of the steps averaged.

    Means over steps and then over seeds, with intervals by Student's t over seeds. `values` has
    `effects_on_other_prompts` at the P points of the grid as (P, K) arrays.
    """
    stacked, seeds, steps = by_seed_and_step(values)
    points, kinds = stacked.shape[:2]
    found = means_over_steps_and_seeds(stacked.reshape(-1, len(seeds), len(steps)), confidence)
    return pd.DataFrame(
        {
            "arm": arm,
            "step": max(steps),
            "point": np.repeat(np.arange(points), kinds),
            "component": np.tile(components, points),
            "effect": found.estimate,
            "low": found.low,
            "high": found.high,
            "seeds": len(seeds),
            "steps": len(steps),
            "interval": found.interval,
        }
    )


def point_table(grid: np.ndarray, components: list[str]) -> pd.DataFrame:
    """Rows (point, component) with the weights of a map's points."""
    return pd.DataFrame(
        {
            "point": np.repeat(np.arange(len(grid)), len(components)),
            "component": np.tile(components, len(grid)),
            "weight": grid.ravel() + 0.0,  # no -0
        }
    )
