"""For all tests: one thread a process (machines are shared), no network, and a valid config."""

import copy
import os

import pytest

from configs import CONFIG

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


@pytest.fixture
def config():
    """A valid config, to be changed."""
    return copy.deepcopy(CONFIG)
