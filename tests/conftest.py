"""For all tests: one thread a process (machines are shared), no network, and a valid config."""

import copy
import os

import pytest
from xdist.scheduler import LoadScopeScheduling

from configs import CONFIG

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


#: Files whose tests may run in any process: what they share is made once for all processes.
SPREAD = ("test_edits.py", "test_refusals.py", "test_retries.py", "test_soak.py", "test_study.py")


class ByFile(LoadScopeScheduling):
    """Tests of one file run in one process and share its fixtures, but for those of the files that are spread.

    xdist's own groups do nothing under pytest 9.2, which no longer takes the name of a test from where xdist writes it.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return nodeid if file.startswith("tests/workflow/") and file.endswith(SPREAD) else file


def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)


def pytest_collection_modifyitems(items):
    """Refuse a test that is marked `long` alone."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid}: a test marked `long` must be marked `slow`, too")


@pytest.fixture
def config():
    """A valid config, to be changed."""
    return copy.deepcopy(CONFIG)
