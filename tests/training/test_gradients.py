"""Layers by the names of their parameters, and gradients under autocast."""

import pandas as pd
import pytest
from trl import GRPOTrainer

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
