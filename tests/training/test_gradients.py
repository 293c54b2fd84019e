"""Component gradients against an independent computation, and the pure functions on hand-worked values."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from trl import GRPOTrainer

from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.core.gradients.recorder import layer_of

from . import given


@pytest.mark.parametrize(
    ("parameter", "layer"),
    [
        ("model.embed_tokens.weight", "embed_tokens"),
        ("model.layers.11.self_attn.q_proj.bias", "layers.11"),
        ("transformer.h.3.mlp.c_fc.weight", "layers.3"),  # GPT-2's name of a block
        ("model.norm.weight", "norm"),
        ("lm_head.weight", "lm_head"),
        ("base_model.model.model.layers.2.mlp.up_proj.lora_A.default.weight", "layers.2"),
        ("base_model.model.lm_head.lora_B.default.weight", "lm_head"),
    ],
)
def test_layer_of(parameter, layer):
    assert layer_of(parameter) == layer


def first_step_gram(run):
    gradients = pd.read_parquet(run / "gradients.parquet").query(
        "step == 1 and layer == 'all' and definition == 'alone'"
    )
    names = ["correctness", "format", "length"]
    dots = {(row.component_a, row.component_b): row.dot for row in gradients.itertuples()}
    return np.array([[dots[min(a, b), max(a, b)] for b in names] for a in names])


RECORDING_LENGTH = """
import json, pathlib

def length(completions, completion_ids, *, file: str, **columns):
    pathlib.Path(file).write_text(json.dumps(completion_ids))  # text does not always tokenise back to itself
    return [max(0.0, 1 - abs(len(ids) - 10) / 10) for ids in completion_ids]
"""


def naive_gram(demo_model, problems, rollouts, completion_ids):
    """K separate forward and backward passes over the rollouts, one completion at a time, with a loss written out.

    Loss dapo on policy: -sum_i A_i sum_t log p_it / (all tokens of the batch).
    """
    tokenizer = load_tokenizer(demo_model)
    questions = pd.read_parquet(problems).set_index("id").question
    gradients = []
    for name in ("correctness", "format", "length"):
        model = load_model(demo_model)
        scores = rollouts.groupby("problem_id")[f"score_{name}"]
        advantages = (rollouts[f"score_{name}"] - scores.transform("mean")) / (scores.transform("std") + 1e-4)
        loss = 0.0
        for problem, completion, advantage in zip(rollouts.problem_id, completion_ids, advantages, strict=True):
            prompt = tokenizer(questions[problem] + "\n")["input_ids"]
            logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
            logps = torch.log_softmax(logits, dim=-1)[range(len(completion)), completion]
            loss = loss - float(advantage) * logps.sum() / rollouts.tokens.sum()
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]))
    stacked = torch.stack(gradients).double().numpy()
    return stacked @ stacked.T


def test_gram_equals_separate_passes(train, demo_model, problems, tmp_path):
    """Of two micro-batches, whose gradients are added before any product is taken."""
    (tmp_path / "recording.py").write_text(RECORDING_LENGTH)
    ids = tmp_path / "ids.json"
    run = train(
        "run",
        components={"length": {"function": f"{tmp_path}/recording.py:length", "parameters": {"file": str(ids)}}},
        training={
            "gradient_accumulation_steps": 2,
            "per_device_train_batch_size": 4,
            "max_steps": 1,
        },
    )
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    naive = naive_gram(demo_model, problems, rollouts, json.loads(ids.read_text()))
    assert first_step_gram(run) == pytest.approx(naive, rel=2e-4, abs=1e-6 * np.abs(naive).max())


def test_bfloat16_measures_what_float32_does_within_its_precision(train, given_completions, monkeypatch):
    """Under autocast, on the same rollouts; sums are float32."""
    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", given.give(given_completions))
    exact = pd.read_parquet(train("float32", training={"max_steps": 1}) / "gradients.parquet")
    rough = pd.read_parquet(train("bfloat16", training={"max_steps": 1, "bf16": True}) / "gradients.parquet")
    keys = ["layer", "definition", "component_a", "component_b"]
    both = exact.merge(rough, on=keys, suffixes=("", "_rough")).dropna(subset=["cosine", "cosine_rough"])
    assert len(both) > 20
    assert (both.cosine - both.cosine_rough).abs().max() < 0.05
    assert (both.norm_a / both.norm_a_rough - 1).abs().max() < 0.05
    assert (both.cosine != both.cosine_rough).any()
