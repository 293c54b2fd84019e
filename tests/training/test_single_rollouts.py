"""A run of PPO with one rollout per prompt: the weighted score is the advantage, all else is as with groups."""

import pandas as pd
import pytest

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.settings import completions_at_once, grpo_config

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


def test_processes_generate_together(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert completions_at_once({"per_device_train_batch_size": 1}) == 4
    assert completions_at_once({"per_device_train_batch_size": 1, "generation_batch_size": 8}) == 8  # of all of them


@pytest.mark.parametrize(
    ("settings", "at_once"),
    [
        ({"per_device_train_batch_size": 6}, 6),
        ({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}, 4),
        ({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "steps_per_generation": 12}, 12),
        ({"per_device_train_batch_size": 3, "generation_batch_size": 9}, 9),
    ],
)
def test_any_batch_is_made_of_single_rollouts(tmp_path, settings, at_once):
    config = grpo_config({"num_generations": 1, **settings}, tmp_path, seed=0, on_cpu=True)
    assert (config.num_generations, config.generation_batch_size) == (1, at_once)
