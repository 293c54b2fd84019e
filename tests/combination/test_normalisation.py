"""Advantages of the two aggregations, compared with the trainer's, which uses torch."""

import numpy as np
import pytest
import torch

from combination.batches import combine, made_up
from reward_ablation.training.core.advantages import component_advantages


def with_gaps(seed: int = 0, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    scores, groups = made_up(seed, size=size)
    scores[np.random.default_rng(seed).random(scores.shape) < 0.2] = np.nan
    scores[3] = np.nan  # a completion that nothing could score
    scores[:size, 2] = np.nan  # a component that scored no completion of a group
    scores[size : 2 * size] = 0.7  # a group without any difference
    scores[2 * size : 3 * size, 1] = 2.0 - scores[2 * size : 3 * size, 0]  # differences that cancel in a total
    scores[2 * size : 3 * size, 2] = 0.1
    return scores, groups


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize(
    ("method", "scale_rewards"),
    [("weighted_sum", "group"), ("weighted_sum", "batch"), ("weighted_sum", "none"), ("gdpo", "group")],
)
def test_the_two_methods_of_trl_are_those_of_the_trainer(method, scale_rewards, size):
    aggregation = {"weighted_sum": "sum_then_normalize", "gdpo": "normalize_then_sum"}[method]
    parameters = {"scale_rewards": scale_rewards} if method == "weighted_sum" else {}
    for weights in (np.array([2.0, 0.0, 0.3]), np.array([1.0, -0.5, 0.0])):
        scores, groups = with_gaps(size=size)
        found = combine(method, parameters, scores, groups, weights, {}, names="abc")
        how = (size, scale_rewards, aggregation)
        by_torch = component_advantages(torch.from_numpy(scores), torch.from_numpy(weights), *how)
        np.testing.assert_allclose(found.advantages, by_torch.numpy(), atol=1e-9)
        np.testing.assert_array_equal(found.weights, weights)
