"""Shares of the advantage sum to what TRL computes, in every setting; with one rollout, the score is the advantage."""

import math

import pandas as pd
import pytest
import torch

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.advantages import alone_advantages, component_advantages
from reward_ablation.training.core.settings import completions_at_once, grpo_config


@pytest.mark.parametrize("scale_rewards", ["group", "batch"])
def test_components_that_cancel_in_the_total_have_no_part(scale_rewards):
    """The total's deviation is 0, or of rounding alone: parts divided by it would be thousands of times too large."""
    scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.3, 0.6, 0.1], [0.1, 0.3, 0.6]])
    parts = component_advantages(scores, torch.ones(3), 4, scale_rewards, "sum_then_normalize")
    assert parts.tolist() == [[0.0] * 3] * 4
    other = component_advantages(scores, torch.tensor([1.0, 1.0, 0.9]), 4, scale_rewards, "sum_then_normalize")
    assert other.abs().max() > 1


def test_alone_is_defined_for_components_of_any_weight():
    scores = torch.tensor([[1.0, 2.0], [0.0, 4.0], [0.0, math.nan], [1.0, 6.0]])
    alone = alone_advantages(scores, 4, "none", "sum_then_normalize")
    assert alone[:, 0].tolist() == [0.5, -0.5, -0.5, 0.5]
    assert alone[:, 1].tolist() == [-2.0, 0.0, 0.0, 2.0]  # mean 4 over the three that were scored


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize("scale_rewards", ["group", "batch", "none"])
def test_shares_sum_to_the_advantage_of_trl(train, tmp_path, scale_rewards, aggregation):
    """With a component that gives no score to some completions."""
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
    shares = rollouts.filter(like="advantage_").sum(axis=1)
    assert shares.tolist() == pytest.approx(rollouts.advantage.tolist(), abs=1e-5)


#: Three steps on the rollouts of one policy, so that ratios move; a reference; the loss of a plain PPO step.
PPO = {"num_generations": 1, "num_iterations": 3, "max_steps": 6, "beta": 0.04, "loss_type": "grpo"}


@pytest.mark.slow
def test_a_run_of_single_rollouts(train):
    constant = {"correctness": {"function": "constant", "parameters": {"value": 0.3}}}
    run = train("run", training=PPO, components=constant)
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert rollouts.groupby("step").problem_id.nunique().to_dict() == {1: 8, 4: 8}  # 8 prompts, generated twice
    assert (rollouts.rollout == 0).all()
    assert rollouts.advantage.tolist() == pytest.approx(rollouts.total.tolist(), abs=1e-6)
    assert rollouts.advantage_format.tolist() == pytest.approx((0.5 * rollouts.score_format).tolist(), abs=1e-6)
    metrics = pd.read_parquet(run / "metrics.parquet")
    assert metrics.frac_reward_zero_std[0] == (rollouts[rollouts.step == 1].advantage == 0).mean() == 0
    assert metrics.kl.iloc[-1] > 0
    gradients = pd.read_parquet(run / "gradients.parquet")
    of_constant = gradients[(gradients.component_a == "correctness") & (gradients.layer == "all")]
    assert (of_constant.norm_a > 0).all()  # without a baseline it makes whatever was sampled likelier


def test_one_completion_at_a_time_is_refused(tmp_path):
    """TRL must believe that it trains on a group."""
    with pytest.raises(StudyError, match="num_generations: 1 needs two completions or more at a time; raise steps_per"):
        grpo_config({"num_generations": 1, "per_device_train_batch_size": 1}, tmp_path, seed=0, on_cpu=True)


@pytest.mark.parametrize(
    ("settings", "at_once"),
    [
        ({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}, 4),
        ({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "steps_per_generation": 12}, 12),
        ({"per_device_train_batch_size": 3, "generation_batch_size": 9}, 9),
    ],
)
def test_any_batch_is_made_of_single_rollouts(tmp_path, monkeypatch, settings, at_once):
    config = grpo_config({"num_generations": 1, **settings}, tmp_path, seed=0, on_cpu=True)
    assert (config.num_generations, config.generation_batch_size) == (1, at_once)
    monkeypatch.setenv("WORLD_SIZE", "4")  # processes generate together
    assert completions_at_once(settings) == (at_once if "generation_batch_size" in settings else 4 * at_once)
