"""For all tests: one thread a process (machines are shared), no network, and a valid config."""

import copy
import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

CONFIG = {
    "name": "study",
    "seeds": [0, 1],
    "model": {"source": "demo"},
    "data": {
        "train": {"source": "word_problems", "count": 10, "split": "train"},
        "evaluation": {"test": {"source": "word_problems", "count": 10, "split": "test"}},
    },
    "components": {
        "correctness": {"function": "correctness", "parameters": {"answer_format": "hash"}},
        "format": {"function": "answer_format", "parameters": {"format": "hash"}},
    },
    "arms": {
        "design": "list",
        "arms": {"a": {"weights": {"correctness": 1}}, "b": {"weights": {"correctness": 1, "format": 0.5}}},
    },
    "training": {"max_steps": 10},
    "evaluation": {"answer_format": "hash"},
}


@pytest.fixture
def config():
    """A valid config, to be changed."""
    return copy.deepcopy(CONFIG)
