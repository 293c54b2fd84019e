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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of one file run in one process and share its fixtures; those marked `spread` may run in any process."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid}: a test marked `long` must be marked `slow`, too")
        if not item.get_closest_marker("spread") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}.{item.path.stem}"))


@pytest.fixture
def config():
    """A valid config, to be changed."""
    return copy.deepcopy(CONFIG)
