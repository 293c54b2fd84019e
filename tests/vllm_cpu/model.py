"""The demo model with heads of a size that vLLM's attention on a CPU can do: two of 32, where it has four of 16."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.conftest import make_model


def make_vllm_model(folder: Path) -> Path:
    """The model and tokenizer of `make_model`, warm-started with two heads."""
    from transformers import Qwen2ForCausalLM

    from reward_ablation.models import demo

    build = demo.build_model

    def build_model(tokenizer):
        model = build(tokenizer)
        model.config.num_attention_heads = model.config.num_key_value_heads = 2
        with_two = Qwen2ForCausalLM(model.config)
        with_two.generation_config = model.generation_config
        return with_two

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "build_model", build_model)
        return make_model(folder)
