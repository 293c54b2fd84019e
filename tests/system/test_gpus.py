"""Which process gets which GPU: real processes and locks, with a stand-in for nvidia-smi (`stand_in_gpus`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress

import pytest

from locks import gets_free, is_free
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.system.gpus import claim_gpus, count_gpus, is_apple
from stand_in_gpus import Machine

CLAIM = """
import os, sys, time
from reward_ablation.system.errors import one_line_errors
from reward_ablation.system.gpus import claim_gpus
with one_line_errors():
    locks = claim_gpus({count}, "train")
names = os.environ["CUDA_VISIBLE_DEVICES"]
"""
SAY_AND_SLEEP = "print(names, flush=True); time.sleep(120)"


@pytest.fixture
def machine(tmp_path):
    """Makes a machine with so many GPUs."""
    made = []

    def make(gpus: int) -> Machine:
        made.append(Machine(tmp_path / f"machine{len(made)}", gpus))
        return made[-1]

    yield make
    for each in made:
        each.clear()


def start(machine, code, count=1, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", CLAIM.format(count=count) + code],
        env=machine.environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def claimant(machine, code=SAY_AND_SLEEP, count=1, **environment):
    """A process that has claimed its GPUs, and their numbers; killed in the end."""
    with start(machine, code, count, **environment) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def claim_once(machine, count=1, **environment):
    """Numbers of the GPUs that a process got, which has ended."""
    code = "print(names, os.environ.get('CUDA_DEVICE_ORDER'))"
    printed, errors = start(machine, code, count, **environment).communicate(timeout=60)
    assert errors == ""
    return printed.strip()


def refused(machine, count=1, status=1, **environment):
    process = start(machine, SAY_AND_SLEEP, count, **environment)
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed) == (status, "")
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    return errors


def test_each_is_given_a_gpu_of_its_own_and_the_next_waits_for_one_of_them(machine):
    here = machine(2)
    with ExitStack() as running:
        held = [running.enter_context(claimant(here)) for _ in range(2)]
        assert sorted(names for _, names in held) == ["0", "1"]
        with start(here, "print(names)") as third:
            told = third.stderr.readline()
            assert told.startswith("train: waiting for 1 GPU; GPU 0 is held by process ")
            assert all(f"is held by process {process.pid} on " in told for process, _ in held)
            killed, names = held[1]
            killed.kill()
            assert third.communicate(timeout=60)[0] == f"{names}\n"


def test_one_that_waits_for_two_gpus_keeps_none_of_them(machine):
    """Else two that wait could have one each, for ever."""
    here = machine(2)
    with claimant(here) as (_, first), start(here, SAY_AND_SLEEP, 2) as waiting:
        try:
            assert waiting.stderr.readline().startswith("train: waiting for 2 GPUs; ")
            assert {first, claim_once(here).split()[0]} == {"0", "1"}
        finally:
            os.killpg(waiting.pid, signal.SIGKILL)


def test_a_launcher_and_its_processes_keep_the_gpus_of_their_run(machine):
    """As on several GPUs: the launcher replaces the process that made the claim, and may die before its processes."""
    here = machine(2)
    rank = CLAIM.format(count=2) + SAY_AND_SLEEP
    launcher = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {rank!r}])"
    replace = "[lock.keep_over_exec() for lock in locks]; "
    replace += f"os.execv(sys.executable, [sys.executable, '-c', {launcher!r}])"
    with claimant(here, replace, count=2) as (process, names):
        assert names == "0,1"
        assert here.calls == 1
        process.kill()
        os.waitpid(process.pid, 0)
        assert not any(is_free(lock) for lock in here.locks)
    assert all(gets_free(lock) for lock in here.locks)


def test_only_gpus_that_cuda_visible_devices_names_are_taken(machine):
    """By their numbers, or by the first letters of their UUIDs."""
    here = machine(6)
    named = f"3,GPU-{here.uuids[5][:13]}"
    with (
        claimant(here, CUDA_VISIBLE_DEVICES="3,5") as (_, first),
        claimant(here, CUDA_VISIBLE_DEVICES=named) as (_, of),
    ):
        assert {first, of} == {"3", "5"}  # vLLM reads numbers only
        assert claim_once(here) == "0 PCI_BUS_ID"  # one that may use all of them takes none of these
    twice = f"0,GPU-{here.uuids[0]}"
    assert "this machine shows 1 GPU (" in refused(here, 2, CUDA_VISIBLE_DEVICES=twice)


def test_a_part_of_a_gpu_is_passed_on_as_it_is(machine):
    """nvidia-smi does not list parts that MIG has made."""
    here = machine(1)
    part = f"MIG-{here.uuids[0]}"
    assert claim_once(here, CUDA_VISIBLE_DEVICES=part) == f"{part} None"
    here.lock(part).unlink()


def test_a_slurm_job_takes_what_it_was_given_without_a_claim(machine):
    """GPU number 0 of a job may be any GPU of the node, and differ from number 0 of the next job."""
    here = machine(2)
    with claimant(here):
        assert claim_once(here, SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="0") == "0 None"
        assert claim_once(here, 2, SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="0,1") == "0,1 None"
    assert here.calls == 1


def test_runs_side_by_side_in_one_slurm_job_share_no_gpu_either(machine):
    """A study that is started by hand in an allocation of two GPUs."""
    here = machine(2)
    job = {"SLURM_JOB_ID": here.uuids[0], "CUDA_VISIBLE_DEVICES": "0,1"}
    other = {"SLURM_JOB_ID": here.uuids[1], "CUDA_VISIBLE_DEVICES": "0,1"}
    with claimant(here, **job) as (_, first), claimant(here, **job) as (_, second), claimant(here, **other) as (_, of):
        assert {first, second} == {"0", "1"}
        assert of == "0"  # in another job, another GPU
    assert here.calls == 0
    for identity in (f"slurm-{here.uuids[0]}-0", f"slurm-{here.uuids[0]}-1", f"slurm-{here.uuids[1]}-0"):
        here.lock(identity).unlink()


@pytest.mark.parametrize(
    ("count", "environment", "message"),
    [
        (3, {}, "launch.gpus: a run takes 3 GPUs and this machine shows 2 GPUs; lower launch.gpus (0 is the CPU)"),
        (1, {"CUDA_VISIBLE_DEVICES": ""}, "a run takes 1 GPU and this machine shows none (CUDA_VISIBLE_DEVICES=)"),
        (1, {"CUDA_VISIBLE_DEVICES": "-1,0"}, "this machine shows none"),  # CUDA reads no further
        (1, {"CUDA_VISIBLE_DEVICES": "7"}, "CUDA_VISIBLE_DEVICES: 7: no GPU of this machine; nvidia-smi lists 0, 1"),
        (2, {"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "7"}, "this Slurm job was given 1 GPU"),
    ],
)
def test_more_than_there_are_is_one_line(machine, count, environment, message):
    assert message in refused(machine(2), count, **environment)


def test_a_driver_that_does_not_work_is_one_line(machine):
    here = machine(1)
    here.says("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    said = "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch; see to the driver, or lower"
    assert said in refused(here, status=GOES_ON)  # the driver may come back


def test_without_nvidia_smi_gpus_can_be_named(machine, tmp_path):
    here = machine(0)
    here.program.unlink()
    alone = {"PATH": str(here.program.parent)}
    said = "shows none (there is no nvidia-smi; GPUs that are here all the same can be named in"
    assert said in refused(here, **alone)
    name = f"{os.getpid()}1"  # a number that no GPU has
    assert claim_once(here, CUDA_VISIBLE_DEVICES=name, **alone) == f"{name} None"
    here.lock(name).unlink()


def test_auto_is_one_gpu_of_several_or_the_cpu_and_a_mac_has_one_without_a_lock(machine, monkeypatch):
    for name, value in machine(3).environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert count_gpus() == (1, "an NVIDIA GPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert count_gpus() == (0, "the CPU")
    machines = [(system, machine) for system in ("darwin", "linux") for machine in ("arm64", "x86_64")]
    assert [each for each in machines if is_apple(*each)] == [("darwin", "arm64")]
    monkeypatch.setattr("reward_ablation.system.gpus.is_apple", lambda: True)
    assert count_gpus() == (1, "Apple's GPU")
    assert claim_gpus(1, "train") == []
    with pytest.raises(StudyError, match="a run takes 2 GPUs and this machine shows 1 GPU"):
        claim_gpus(2, "train")
