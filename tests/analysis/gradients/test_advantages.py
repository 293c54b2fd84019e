"""Advantages in NumPy equal those of training, and baselined scores equal their definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_ablation.analysis.gradients.advantages import component_shares, leave_one_out_scores

NAN = float("nan")


@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize("scale_rewards", ["group", "batch", "none"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), gaps=st.sampled_from([0.0, 0.3, 0.9]), group=st.integers(1, 5))
def test_shares_are_those_of_training(scale_rewards, aggregation, seed, gaps, group):
    torch = pytest.importorskip("torch")
    from reward_ablation.training.core.advantages import component_advantages as in_torch

    rng = np.random.default_rng(seed)
    scores = rng.choice([0.0, 0.25, 1.0, 3.0], size=(3 * group, 3))
    scores[rng.random(scores.shape) < gaps] = NAN
    weights = np.append(rng.choice([0.0, 1.0, -0.5, 2.0], size=2), 0.25)  # one counts
    how = (group, scale_rewards, aggregation)
    expected = in_torch(torch.tensor(scores), torch.tensor(weights), *how).numpy()
    np.testing.assert_allclose(
        component_shares(scores, weights, *how), expected, rtol=1e-7, atol=1e-7
    )  # torch takes n / (n - 1) in float32


def test_shares_on_hand_worked_scores():
    # one group: totals 1, 0, 1, 0 -> mean .5, sample deviation .57735; with TRL's 1e-4 added .57745
    scores = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    shares = component_shares(scores, np.array([1.0, 5.0]), 4, "group", "sum_then_normalize")
    assert list(shares[:, 0]) == pytest.approx([0.86588, -0.86588, 0.86588, -0.86588], abs=1e-5)
    assert list(shares[:, 1]) == [0.0] * 4


def test_scores_against_the_others_of_their_group():
    scores = np.array([[1.0], [0.0], [5.0], [2.0], [NAN], [4.0], [NAN], [NAN], [7.0]])
    against = leave_one_out_scores(scores, 3)
    # 1 - (0 + 5) / 2 and so on; 2 - 4; one score alone has nothing to stand against
    assert list(against[:, 0]) == pytest.approx([-1.5, -3.0, 4.5, -2.0, 0.0, 2.0, 0.0, 0.0, 0.0])


def test_single_scores_are_their_own_shares_and_stand_against_the_batch():
    scores = np.array([[1.0, 0.0], [0.0, 4.0], [5.0, NAN]])
    shares = component_shares(scores, np.array([1.0, 0.5]), 1, "group", "sum_then_normalize")
    assert shares.tolist() == [[1.0, 0.0], [0.0, 2.0], [5.0, 0.0]]
    # 1 - (0 + 5) / 2 and so on; 0 - 4 and 4 - 0
    np.testing.assert_allclose(leave_one_out_scores(scores, 1), [[-1.5, -4.0], [-3.0, 4.0], [4.5, 0.0]])
