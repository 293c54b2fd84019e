"""Adapters of layers that a model does not have, or that cannot be trained or merged, are refused in one line."""

import pytest

from models.conftest import tiny_model  # noqa: F401
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.adapters import check_adapters


def lora(names):
    return {"r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "target_modules": names}


@pytest.mark.parametrize(
    ("section", "names", "message"),
    [
        ("lora", ["q_proj", "v_prj"], r"v_prj: the model has no such layer; write .* down_proj, .*q_proj.*, or all-l"),
        ("lora", "(", "peft refuses it: missing"),  # no pattern
        ("sft.lora", ["q_proj", "input_layernorm"], "peft refuses it: Target module Qwen2RMSNorm"),
        ("lora", ".*(q_proj|lm_head)", "matches the head, and TRL trains no adapter of it"),
    ],
)
def test_layers_that_are_refused(tiny_model, section, names, message):  # noqa: F811
    with pytest.raises(StudyError, match=f"^{section}.target_modules: {message}") as refused:
        check_adapters(tiny_model, lora(names), section)
    assert "\n" not in str(refused.value)


def test_a_tied_embedding_is_refused_where_its_adapter_would_be_merged(tiny_model):  # noqa: F811
    names = lora(["q_proj", "embed_tokens"])
    check_adapters(tiny_model, names, "lora")
    with pytest.raises(StudyError, match=r"^sft\.lora\.target_modules: an adapter of the embedding cannot be merged"):
        check_adapters(tiny_model, names, "sft.lora")


@pytest.mark.parametrize("names", ["all-linear", ["q_proj", "layers.0.mlp.up_proj"], r".*\.(q|v)_proj"], ids=str)
def test_layers_that_the_model_has(tiny_model, names):  # noqa: F811
    check_adapters(tiny_model, lora(names), "sft.lora")
    check_adapters(tiny_model, None, "lora")


def test_a_folder_without_a_model_is_told(tmp_path):
    with pytest.raises(StudyError, match=r"no model can be built from config\.json"):
        check_adapters(tmp_path, lora(["q_proj"]), "lora")
