"""For all tests: one thread per process (machines are shared), no network, no GPU, and a valid config."""

import copy
import gc
import os
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from configs import CONFIG

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
if Path("/dev/nvidiactl").exists():
    # Equal bytes are promised for CPUs only, and some tests fork, which autograd's threads for a GPU forbid.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
gc.disable()  # until all tests are collected: there is nothing to collect, and looking takes a fifth of that time


#: Folders whose tests run in one process: each has a Slurm cluster or a vLLM engine that is dear to start.
TOGETHER = ("tests/slurm/", "tests/vllm_cpu/")
#: Files of tests/workflow whose tests run in any process: what they share is made once for all processes.
SPREAD = ("test_edits.py", "test_refusals.py", "test_retries.py", "test_soak.py", "test_study.py")
#: Makes the finished study that the tests of the workflow share, so that no process waits for it later.
FIRST = "tests/workflow/test_study.py::test_every_figure_and_table_is_made"


class ByFile(LoadScopeScheduling):
    """Tests of one file run in one process and share its fixtures, except for the files and folders above.

    xdist's own groups have no effect under pytest 9.2, which no longer reads the name of a test where xdist writes it.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        if file.startswith("tests/workflow/") and file.endswith(SPREAD):
            return nodeid
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)


def pytest_collection_modifyitems(items):
    """Order: fast files, then files with slow tests, at last tests that can run in any process."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid}: a test marked `long` must be marked `slow`, too")
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def turn(item) -> int:
        if item.nodeid == FIRST:
            return 1
        if item.path not in slow:
            return 0
        return 2 + item.nodeid.startswith("tests/workflow/") + (item.path.name in SPREAD)

    items.sort(key=turn)


def pytest_collection_finish():
    """Leave what the imports made out of garbage collection, which otherwise reads all of it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def config():
    """A valid config, to be changed."""
    return copy.deepcopy(CONFIG)
