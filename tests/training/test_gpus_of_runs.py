"""The training command on a machine whose GPUs are a stand-in (`stand_in_gpus`): it gets them, and there it ends."""

import subprocess
import sys
import time

import pytest

from reward_ablation.study.canonical import canonical
from reward_ablation.study.locks import Held, take
from stand_in_gpus import Machine

from .conftest import spec_with


@pytest.fixture
def machine(tmp_path):
    """A machine with two GPUs."""
    made = Machine(tmp_path / "machine", 2)
    yield made
    made.clear()


@pytest.fixture
def start(machine, demo_model, problems, tmp_path):
    """Starts a run on so many GPUs, by code that is not there."""

    def training(gpus):
        spec = canonical(spec_with(gpus=gpus))
        command = [sys.executable, "-m", "reward_ablation.training", "--spec", spec, "--code", "0" * 16]
        command += ["--model", str(demo_model), "--problems", str(problems), "--run-dir", str(tmp_path / "run")]
        return subprocess.Popen(command, env=machine.environment(), stderr=subprocess.PIPE, text=True)

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
    assert process.communicate(timeout=120)[1] == (
        "error: the training code has changed since the workflow was started; start it again\n"
    )


def test_more_gpus_than_there_are_is_one_line(start):
    told = start(3).communicate(timeout=120)[1]
    assert told.startswith("error: launch.gpus: a run takes 3 GPUs and this machine shows 2 GPUs")
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_launcher_and_its_processes_hold_the_gpus_to_their_end(machine, start):
    process = start(2)
    deadline = time.monotonic() + 60
    while free(machine):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    while True:
        now_free = free(machine)
        if process.poll() is not None:
            break
        assert now_free == []
        time.sleep(0.2)
    assert "the training code has changed" in process.communicate()[1]  # which the launcher's processes find
    assert free(machine) == [0, 1]
    assert machine.calls == 1  # they do not look for GPUs again
