"""The training command on a machine with stand-in GPUs (`stand_in_gpus`): it gets its GPUs, and then ends."""

import json
import subprocess
import time
from contextlib import suppress

import pytest

from reward_ablation.system.locks import Held, take
from stand_in_gpus import Machine

from .conftest import spec_with
from .launch.no_training import ENDS, make_no_training
from .launch.stand_in_vllm import make_vllm


@pytest.fixture
def machine(tmp_path):
    """A machine with three GPUs."""
    made = Machine(tmp_path / "machine", 3)
    yield made
    made.clear()


@pytest.fixture
def start(machine, command, tmp_path):
    """Starts a run in `tmp_path / "run"`, which ends where training would begin, with a stand-in for vLLM."""
    path = make_vllm(tmp_path / "packages")["PYTHONPATH"]
    make_no_training(tmp_path / "packages")

    def training(*options, **changes):
        words = [*command(spec_with(**changes), tmp_path / "run"), *options]
        return subprocess.Popen(words, env=machine.environment(PYTHONPATH=path), stderr=subprocess.PIPE, text=True)

    return training


def free(machine):
    """Which of its GPUs nobody holds."""
    found = []
    for index, path in enumerate(machine.locks):
        with suppress(Held):
            take(path).release()
            found.append(index)
    return found


def test_a_server_is_started_on_gpus_of_its_own(machine, start, demo_model, tmp_path):
    run = tmp_path / "run"
    with take(machine.locks[0]):
        vllm = {"mode": "server", "gpus": 1, "tensor_parallel_size": 1}
        process = start("--vllm-memory-percent", "85", "--vllm-sleep", "0", gpus=1, vllm=vllm)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert ENDS in said  # the training process beside the server
    server = json.loads((run / "vllm.log").read_text().splitlines()[0])
    assert server["gpus"] == "2"  # the last of the two that the run has claimed
    assert server["arguments"][:2] == ["serve", str(demo_model)]
    options = dict(zip(server["arguments"][2::2], server["arguments"][3::2], strict=False))
    assert options["--gpu-memory-utilization"] == "0.85"
    assert 16 < int(options["--max-model-len"]) < 100  # the longest prompt, and a completion
    for lock in (*machine.locks, run / ".lock"):
        take(lock).release()


@pytest.mark.slow
def test_a_launcher_and_its_processes_hold_the_gpus_to_their_end(machine, start):
    process = start(gpus=2)
    deadline = time.monotonic() + 300
    while free(machine) != [2]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    while (now_free := free(machine)) and process.poll() is None:
        assert now_free == [2]
        time.sleep(0.2)
    assert ENDS in process.communicate()[1]  # what the launcher's processes say
    assert free(machine) == [0, 1, 2]
    assert machine.calls == 1  # they do not look for GPUs again
