"""A model that vLLM can run on a CPU, and its problems."""

from pathlib import Path

import pytest

from training.conftest import make_problems

from .model import make_vllm_model


@pytest.fixture(scope="session")
def vllm_model(tmp_path_factory) -> Path:
    return make_vllm_model(tmp_path_factory.mktemp("vllm_model"))


@pytest.fixture(scope="session")
def problems(tmp_path_factory) -> Path:
    return make_problems(tmp_path_factory.mktemp("problems") / "train.parquet")
