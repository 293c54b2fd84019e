"""Models with random weights in the shapes of Qwen2.5."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from reward_ablation.models.demo import build_tokenizer


@dataclass(frozen=True)
class Shape:
    """Sizes of a dense model like Qwen2."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int


#: Shapes of Qwen2.5's public config.json files. These models share their embedding with the head.
QWEN = {
    "0.5B": Shape(896, 24, 14, 2, 64, 4864, 151936),
    "1.5B": Shape(1536, 28, 12, 2, 128, 8960, 151936),
    "3B": Shape(2048, 36, 16, 2, 128, 11008, 151936),
}


def shaped_model(shape: Shape) -> Qwen2ForCausalLM:
    """A model of a shape with random weights, which are the same at each call."""
    tokenizer = build_tokenizer()
    tokens = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        tie_word_embeddings=True,
        **tokens,
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM._from_config(config, dtype=torch.float32)
    model.generation_config = GenerationConfig(**tokens)
    return model
