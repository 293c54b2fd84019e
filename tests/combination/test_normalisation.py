"""Advantages of the two aggregations, compared with the trainer's, which uses torch."""

import numpy as np
import pytest
import torch

from combination.batches import combine, made_up
from reward_ablation.combination.normalisation import centred, nan_std, z_scores
from reward_ablation.training.core.advantages import alone_advantages, component_advantages

EPSILON = 1e-4


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


@pytest.mark.parametrize("size", [1, 8])
def test_z_scores_are_the_advantages_of_each_component_alone(size):
    scores, groups = with_gaps(2, size=size)
    for k in range(3):
        # The trainer counts a missing score of a component that stands alone as unscorable, as here.
        alone = alone_advantages(torch.from_numpy(scores[:, [k]]), size, "group", "sum_then_normalize")
        np.testing.assert_allclose(z_scores(scores, groups, EPSILON)[:, [k]], alone.numpy(), atol=1e-9)


def test_z_scores_of_a_pair_are_one_over_root_two():
    # arXiv 2601.05242, section 3: (0, 1) and (0, 2) both become -0.7071 and 0.7071
    scores = np.array([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(z_scores(scores, np.zeros(2, int), 0.0), np.array([[-1, -1], [1, 1]]) / np.sqrt(2))


def test_values_that_are_alike_have_no_rounding_errors():
    alike = np.full((8, 1), 0.1)
    assert (centred(alike, 0) == 0).all()
    assert nan_std(alike, 0) == 0
    assert np.isnan(nan_std(np.array([0.1, np.nan]), 0)).all()
