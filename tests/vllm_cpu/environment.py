"""Environment of a process that runs vLLM on a CPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

#: Where `make test` installs vLLM: beside the environment's own packages.
VLLM = Path(sys.prefix) / "vllm"
#: Changes vLLM and TRL for a CPU, and is the distribution `vllm`, which the package for CPUs is not.
CHANGES = Path(__file__).parent / "packages"

#: A process with this variable takes the trainer's weights and drops them: a synchronisation that does not take.
DROP_WEIGHTS = "VLLM_CPU_TEST_DROP_WEIGHTS"

VARIABLES = {
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_CI_ENV": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}

requires_vllm = pytest.mark.skipif(
    not VLLM.is_dir() and not os.environ.get("REWARD_ABLATION_NEED_VLLM"),
    reason="vLLM for CPUs is not installed; `make test` does",
)


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with vLLM in it."""
    folders = [str(CHANGES), str(VLLM), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **VARIABLES, "PYTHONPATH": os.pathsep.join(filter(None, folders)), **more}
