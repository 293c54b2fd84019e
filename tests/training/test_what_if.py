"""Predictions for other weights from stored Gram matrices, against training with those weights."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from reward_ablation.analysis.gradients.measured_steps import leave_one_out_scores
from reward_ablation.analysis.gradients.what_if import read_measured_step, what_if
from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer

from .test_placed_training import NAMES, REWARDS

OTHER = {"correctness": -0.5, "format": 2.0, "length": 1.0}


@pytest.fixture
def one_step(train, tmp_path):
    """One step on 16 completions in one block: `one_step(name, weights, **training)`; and where their ids are."""
    (tmp_path / "rewards.py").write_text(REWARDS)
    ids = tmp_path / "ids.json"

    def run(name, weights, **training):
        components = {
            "correctness": {"function": f"{tmp_path}/rewards.py:letters", "parameters": {}},
            "length": {"function": f"{tmp_path}/rewards.py:length", "parameters": {"file": str(ids)}},
        }
        training = {"max_steps": 1, "per_device_train_batch_size": 16, "max_completion_length": 24, **training}
        return train(name, components=components, weights=weights, training=training)

    return run, ids


@pytest.mark.parametrize("training", [{"beta": 0.1}, {"num_generations": 1}], ids=str)
def test_other_weights_are_answered_as_training_with_them_measures(one_step, training):
    """The first step's rollouts are the same for all weights: its measured shares are what was asked for."""
    run, _ = one_step
    asked = run("asked", {"correctness": 1.0, "format": 0.5, "length": 0.0}, **training)
    trained = run("trained", OTHER, **training)
    answer = what_if(OTHER, read_measured_step(asked, 1)).similarity
    measured = pd.read_parquet(trained / "gradients.parquet")
    keys = ["layer", "component_a", "component_b"]
    both = answer.merge(measured[measured["definition"] == "share"], on=keys, suffixes=("", "_measured"))
    assert len(both) == len(answer[~answer["component_a"].eq("total") & ~answer["component_b"].eq("total")])
    assert (both["cosine"] - both["cosine_measured"]).abs().max() < 2e-3
    relative = (both["dot"] - both["dot_measured"]).abs() / (both["norm_a"] * both["norm_b"])
    assert relative.max() < 2e-3


def log_probabilities(model, tokenizer, questions, rollouts, completion_ids):
    """Of whole completions, by a plain forward pass each."""
    values = []
    for problem, ids in zip(rollouts.problem_id, completion_ids, strict=True):
        prompt = tokenizer(questions[problem] + "\n")["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].double()
        values.append(torch.log_softmax(logits, dim=-1)[range(len(ids)), ids].sum().item())
    return np.array(values)


def test_a_small_step_has_the_effect_that_was_foretold(one_step, demo_model, problems):
    """Training with other weights moves each component's expected score as the first run's files say."""
    run, ids = one_step
    plain = {"optim": "sgd", "max_grad_norm": 1e9, "lr_scheduler_type": "constant", "loss_type": "grpo"}
    asked = run("asked", {"correctness": 1.0, "format": 0.5, "length": 0.0}, learning_rate=1e-9, **plain)
    effect = what_if(OTHER, read_measured_step(asked, 1)).effect.query("layer == 'all'").set_index("component").effect
    rate = 3e-3
    trained = run("trained", OTHER, learning_rate=rate, **plain)
    rollouts, completion_ids = pd.read_parquet(trained / "rollouts.parquet"), json.loads(ids.read_text())
    questions = pd.read_parquet(problems).set_index("id").question
    tokenizer = load_tokenizer(demo_model)
    before, after = (
        log_probabilities(load_model(folder), tokenizer, questions, rollouts, completion_ids)
        for folder in (demo_model, trained / "model")
    )
    scores = rollouts[[f"score_{name}" for name in NAMES]].to_numpy()
    change = (leave_one_out_scores(scores, 4) * (np.exp(after - before) - 1)[:, None]).mean(axis=0)
    size = np.abs(effect[NAMES].to_numpy()).max()
    assert change / rate == pytest.approx(effect[NAMES].to_numpy(), rel=0.03, abs=0.03 * size)
