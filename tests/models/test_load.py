"""Loading models and tokenizers."""

import json

import pytest
import torch

from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError


def test_a_model_is_in_evaluation_mode_of_the_type_asked_for_and_never_of_a_pickle(model_copy):
    assert not load_model(model_copy).training
    assert load_model(model_copy).dtype == torch.float32
    assert load_model(model_copy, "bfloat16").dtype == torch.bfloat16
    torch.save({}, model_copy / "pytorch_model.bin")
    (model_copy / "model.safetensors").unlink()
    with pytest.raises(OSError, match="safetensors"):
        load_model(model_copy)
    (model_copy / "adapter_config.json").write_text("{}")
    with pytest.raises(StudyError, match="holds a LoRA adapter; name its base"):
        load_model(model_copy)


def test_tokenizer_needs_a_token_to_pad_with(model_copy):
    (model_copy / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "TokenizersBackend"}))
    with pytest.raises(StudyError, match="no pad_token and no eos_token"):
        load_tokenizer(model_copy)
