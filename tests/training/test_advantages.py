"""Shares of the advantage: they sum to what TRL computes, in every setting that TRL has."""

import pytest
import torch

from reward_ablation.training.core.advantages import alone_advantages, component_advantages

NAN = float("nan")


def test_a_weight_of_zero_has_no_share_and_its_gaps_do_not_count():
    scores = torch.tensor([[1.0, NAN], [0.0, NAN], [0.0, 3.0], [1.0, 4.0]])
    weights = torch.tensor([1.0, 0.0])
    shares = component_advantages(scores, weights, 4, "group", "sum_then_normalize")
    alone = component_advantages(scores[:, :1], weights[:1], 4, "group", "sum_then_normalize")
    assert torch.equal(shares[:, :1], alone)
    assert (shares[:, 1] == 0).all()


@pytest.mark.parametrize("scale_rewards", ["group", "batch"])
def test_components_that_cancel_in_the_total_have_no_part(scale_rewards):
    """The total's deviation is 0, or of rounding alone: parts divided by it would be thousands of times too large."""
    scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.3, 0.6, 0.1], [0.1, 0.3, 0.6]])
    parts = component_advantages(scores, torch.ones(3), 4, scale_rewards, "sum_then_normalize")
    assert parts.tolist() == [[0.0] * 3] * 4
    other = component_advantages(scores, torch.tensor([1.0, 1.0, 0.9]), 4, scale_rewards, "sum_then_normalize")
    assert other.abs().max() > 1


def test_alone_is_defined_for_components_of_any_weight():
    scores = torch.tensor([[1.0, 2.0], [0.0, 4.0], [0.0, NAN], [1.0, 6.0]])
    alone = alone_advantages(scores, 4, "none", "sum_then_normalize")
    assert alone[:, 0].tolist() == [0.5, -0.5, -0.5, 0.5]
    assert alone[:, 1].tolist() == [-2.0, 0.0, 0.0, 2.0]  # mean 4 over the three that were scored


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize("scale_rewards", ["group", "batch", "none"])
def test_shares_sum_to_the_advantage_of_trl(train, tmp_path, scale_rewards, aggregation):
    """With a component that gives no score to some completions."""
    import pandas as pd

    file = tmp_path / "gaps.py"
    scores = "[None if len(text) % 3 == 0 else len(text) / 50 for text in completions]"
    file.write_text(f"def gaps(completions, **columns):\n    return {scores}\n")
    run = train(
        "run",
        components={"length": {"function": f"{file}:gaps", "parameters": {}}},
        weights={"correctness": 0, "format": 0.4, "length": 1.0},
        training={"scale_rewards": scale_rewards, "multi_objective_aggregation": aggregation, "max_steps": 2},
    )
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert rollouts.score_length.isna().any()
    assert rollouts.filter(like="advantage_").sum(axis=1).tolist() == pytest.approx(
        rollouts.advantage.tolist(), abs=1e-5
    )
