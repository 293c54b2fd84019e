"""How long a text a model can read, by its config alone."""

import json

import pytest
from transformers import AutoConfig

from reward_ablation.sampling.context import context_of, too_long


def scaled(positions, **scaling):
    return {"max_position_embeddings": positions, "rope_scaling": scaling}


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("gpt2", {"max_position_embeddings": 1024}, 1024),  # a table of positions
        # Qwen2.5's model card: 32,768 times 4; max_position_embeddings stays as it was.
        ("qwen2", scaled(32768, type="yarn", factor=4.0, original_max_position_embeddings=32768), 131072),
        # Llama 3.1: max_position_embeddings is the extended length, of which 8 times 8,192 is less.
        (
            "llama",
            scaled(
                131072,
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=8192,
            ),
            131072,
        ),
        ("llama", scaled(4096, type="linear", factor=2.0), 8192),
        # Phi-3.5-mini: longer batches are rotated by other factors, by the length with the padding.
        (
            "phi3",
            scaled(131072, type="longrope", short_factor=[1.0] * 48, long_factor=[2.0] * 48)
            | {"original_max_position_embeddings": 4096},
            4096,
        ),
        ("llama", scaled(4096, type="dynamic", factor=4.0), 4096),
        ("falcon", {"alibi": True}, None),
        ("granitemoehybrid", {"position_embedding_type": "nope"}, None),
        ("mamba", {}, None),
    ],
)
def test_the_context_is_what_a_model_can_read_for_certain(tmp_path, kind, settings, expected):
    layers = {"layer_types": ["mamba"]} if kind == "granitemoehybrid" else {}
    content = AutoConfig.for_model(kind, num_hidden_layers=1, **layers).to_dict() | settings
    if "rope_scaling" in settings:
        content.pop("rope_parameters", None)
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert context_of(tmp_path) == expected


def test_a_prompt_and_its_completion_share_the_context():
    prompts = [[1] * 4, [1] * 5, [1] * 9]
    assert too_long(prompts, 10, 5) == [2]
    assert too_long(prompts, 10, 6) == [1, 2]
    assert too_long(prompts, None, 6) == []
