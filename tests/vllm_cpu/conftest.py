"""A model that vLLM can run on a CPU, and its problems."""

from pathlib import Path

import pytest

from training.conftest import make_model, make_problems


def make_vllm_model(folder: Path) -> Path:
    """The demo model with heads of a size that vLLM's attention on a CPU can do: two of 32, where it has four of 16."""
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


@pytest.fixture(scope="session")
def vllm_model(tmp_path_factory) -> Path:
    return make_vllm_model(tmp_path_factory.mktemp("vllm_model"))


@pytest.fixture(scope="session")
def problems(tmp_path_factory) -> Path:
    return make_problems(tmp_path_factory.mktemp("problems") / "train.parquet")
