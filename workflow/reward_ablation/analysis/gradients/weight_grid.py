"""Weight vectors that a map over weights is drawn at."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from reward_ablation.analysis.study_file import StudyArm

#: Points along an edge of the map for two and three components, and for more, of which only edges are shown.
OF_TWO, OF_THREE, OF_MORE = 21, 13, 9


def weight_grid(components: int) -> np.ndarray:
    """Points of the weight simplex: shares of the weights, at least 0 and 1 in sum.

    Two components: a line. Three: a triangle. More: the edges between every two components, on which all other
    weights are 0. One: the single point.

    Returns
    -------
    (points, components) array.
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
