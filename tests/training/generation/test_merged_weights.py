"""Weights of a model with adapters for vLLM: base plus adapter. The base itself does not change."""

import contextlib

import pytest
import torch
from peft import LoraConfig, get_peft_model

from reward_ablation.models.load import load_model
from reward_ablation.training.core.generation.by_vllm import merged_weights

#: Of a run of 200 steps.
SYNCHRONISATIONS = 200


def with_adapters(folder, dtype, **changes):
    """A model in this format, with adapters that are not zero."""
    config = LoraConfig(**{"r": 4, "lora_alpha": 16, "target_modules": "all-linear", **changes}, task_type="CAUSAL_LM")
    model = get_peft_model(load_model(folder, dtype), config)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.02
    return model


def base_weights(model):
    return {name: part.detach().clone() for name, part in model.named_parameters() if "lora_" not in name}


def drift(model, before):
    """Largest change of a weight of the base, in units of its weight's root mean square."""
    return max(
        ((after.float() - before[name].float()).abs().max() / before[name].float().square().mean().sqrt()).item()
        for name, after in base_weights(model).items()
    )


def sent(model):
    return dict(merged_weights(model, lambda parameters: contextlib.nullcontext()))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_base_does_not_drift_as_it_does_where_adapters_are_merged_into_it(demo_model, dtype):
    model = with_adapters(demo_model, dtype)
    before = base_weights(model)
    for _ in range(SYNCHRONISATIONS):
        sent(model)
    assert drift(model, before) == 0
    for _ in range(SYNCHRONISATIONS):  # as TRL does
        model.merge_adapter()
        model.unmerge_adapter()
    assert drift(model, before) > (0.01 if dtype == "bfloat16" else 1e-7)


@pytest.mark.parametrize("changes", [{}, {"use_rslora": True}, {"target_modules": ["q_proj", "embed_tokens"]}])
def test_what_is_sent_is_the_merged_model(demo_model, changes):
    model = with_adapters(demo_model, "float32", **changes)
    weights = sent(model)
    merged = model.merge_and_unload()
    expected = dict(merged.named_parameters())
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(weight, expected[name].data, msg=name)


def test_the_sum_is_rounded_once(demo_model):
    model = with_adapters(demo_model, "bfloat16")
    layer = model.base_model.model.model.layers[0].mlp.up_proj
    exact = layer.base_layer.weight.float() + layer.get_delta_weight("default").float()
    torch.testing.assert_close(sent(model)["model.layers.0.mlp.up_proj.weight"], exact.bfloat16(), rtol=0, atol=0)


def test_weights_are_gathered_while_they_are_read(demo_model):
    model = with_adapters(demo_model, "float32")
    gathered = []

    @contextlib.contextmanager
    def gather(parameters):
        gathered.append(len(parameters))
        yield

    assert len(list(merged_weights(model, gather))) == len(gathered)
    assert {1, 3} == set(gathered)  # alone, or with both halves of its adapter
