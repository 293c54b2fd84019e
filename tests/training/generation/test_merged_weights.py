"""Weights of a model with adapters for vLLM: base plus adapter. The base itself does not change."""

import contextlib

import pytest
import torch
from peft import LoraConfig, get_peft_model

from reward_ablation.models.load import load_model
from reward_ablation.training.core.generation.by_vllm import merged_weights


def with_adapters(folder, dtype, **changes):
    """A model in this format, with adapters that are not zero."""
    config = LoraConfig(**{"r": 4, "lora_alpha": 16, "target_modules": "all-linear", **changes}, task_type="CAUSAL_LM")
    model = get_peft_model(load_model(folder, dtype), config)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.02
    return model


def sent(model, gather=lambda parameters: contextlib.nullcontext()):
    return dict(merged_weights(model, gather))


@pytest.mark.parametrize("changes", [{}, {"use_rslora": True}, {"target_modules": ["q_proj", "embed_tokens"]}])
def test_what_is_sent_is_the_merged_model(demo_model, changes):
    model = with_adapters(demo_model, "float32", **changes)
    weights = sent(model)
    expected = dict(model.merge_and_unload().named_parameters())
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(weight, expected[name].data, msg=name)


def test_the_sum_is_rounded_once_and_the_base_stays(demo_model):
    """Where adapters are merged into the base and taken out again, it drifts a little with each step."""
    model = with_adapters(demo_model, "bfloat16")
    before = {name: part.detach().clone() for name, part in model.named_parameters()}
    layer = model.base_model.model.model.layers[0].mlp.up_proj
    exact = layer.base_layer.weight.float() + layer.get_delta_weight("default").float()
    assert torch.equal(sent(model)["model.layers.0.mlp.up_proj.weight"], exact.bfloat16())
    assert all(torch.equal(part, before[name]) for name, part in model.named_parameters())


def test_weights_are_gathered_while_they_are_read(demo_model):
    gathered = []

    @contextlib.contextmanager
    def gather(parameters):
        gathered.append(len(parameters))
        yield

    assert len(sent(with_adapters(demo_model, "float32"), gather)) == len(gathered)
    assert {1, 3} == set(gathered)  # alone, or with both halves of its adapter
