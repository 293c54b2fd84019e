"""The training command on a machine with stand-in GPUs (`stand_in_gpus`): it gets its GPUs, and then ends."""

import os
import subprocess
import time

import pytest

from reward_ablation.system.locks import Held, take
from stand_in_gpus import Machine

from .conftest import spec_with, training_command
from .launch.no_training import ENDS, make_no_training
from .launch.stand_in_vllm import make_vllm


@pytest.fixture
def machine(tmp_path):
    """A machine with two GPUs."""
    made = Machine(tmp_path / "machine", 2)
    yield made
    made.clear()


@pytest.fixture
def start(machine, demo_model, problems, tmp_path):
    """Starts a run on so many GPUs, which ends where training would begin."""
    make_no_training(tmp_path / "packages")

    def training(gpus, **changes):
        command = training_command(spec_with(gpus=gpus, **changes), tmp_path / "run", demo_model, problems)
        path = os.pathsep.join(filter(None, [str(tmp_path / "packages"), os.environ.get("PYTHONPATH")]))
        environment = machine.environment(PYTHONPATH=path)
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    return training


def free(machine):
    """Which of its GPUs nobody holds."""
    found = []
    for index, path in enumerate(machine.locks):
        try:
            take(path).release()
            found.append(index)
        except Held:
            pass
    return found


def test_it_waits_for_a_gpu_of_its_own(machine, start):
    with take(machine.locks[0]), take(machine.locks[1]):
        process = start(1)
        told = process.stderr.readline()
        assert told.startswith("train: waiting for 1 GPU; GPU 0 is held by process ")
    assert ENDS in process.communicate(timeout=120)[1]


def test_too_few_for_a_run_and_its_server_is_one_line(start, tmp_path):
    make_vllm(tmp_path / "packages")
    told = start(2, vllm={"mode": "server", "gpus": 1, "tensor_parallel_size": 1}).communicate(timeout=120)[1]
    assert told == (
        "error: launch.gpus: a run takes 3 GPUs, 2 to train on and 1 for its vLLM server, and this machine shows "
        "2 GPUs; lower launch.gpus or launch.vllm.gpus, or take mode: colocate\n"
    )


@pytest.mark.slow
def test_a_launcher_and_its_processes_hold_the_gpus_to_their_end(machine, start):
    process = start(2)
    deadline = time.monotonic() + 300
    while free(machine):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    while True:
        now_free = free(machine)
        if process.poll() is not None:
            break
        assert now_free == []
        time.sleep(0.2)
    assert ENDS in process.communicate()[1]  # what the launcher's processes say
    assert free(machine) == [0, 1]
    assert machine.calls == 1  # they do not look for GPUs again
