"""The processes of a run and their GPUs: as many as its spec says. They stop together, and none is left behind."""

import inspect
import json
import os
import re
import signal
import subprocess
import threading
from dataclasses import replace

import psutil
import pytest
from torch.distributed.elastic.multiprocessing import api as elastic

from reward_ablation.spec.run import Layout
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, RECORD, VLLM_LOG
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.system.files import sha256, write_json
from reward_ablation.system.locks import Held, take
from reward_ablation.training.__main__ import train
from reward_ablation.training.around.launch.launcher import status_of
from reward_ablation.training.around.launch.processes import check_installed, srun_command
from stand_in_gpus import Machine

from .conftest import job_of, spec_with
from .interrupting import started, wait_for
from .launch.stand_in_vllm import make_vllm

JOB = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_JOB_NUM_NODES": "2"}


def test_srun_starts_a_launcher_on_each_node():
    command = srun_command(2, {**JOB, "SLURM_CPUS_PER_TASK": "4"})
    assert {"srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--kill-on-bad-exit=1"} < set(command)
    assert "--cpus-per-task=4" in command
    assert not any(option.startswith("--cpus") for option in srun_command(2, JOB))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "launch.nodes: a run on 2 nodes must be started by a Slurm job's batch script, and this process is not"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}, "this process is not in one"),  # salloc, on a login node
        ({**JOB, "SLURM_JOB_NUM_NODES": "1"}, "launch.nodes: the run needs 2 nodes, and Slurm job 7 has 1; submit"),
    ],
)
def test_nodes_that_are_not_there_are_told(environment, message):
    with pytest.raises(StudyError, match=re.escape(message)):
        srun_command(2, environment)


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ({"processes": 2, "strategy": "zero2"}, r"^launch\.strategy: the package deepspeed is not installed"),
        ({"vllm": {"mode": "colocate", "tensor_parallel_size": 1}}, r"^launch\.vllm: the package vllm is not"),
    ],
)
def test_a_package_that_is_not_installed_is_told(layout, told, monkeypatch):
    monkeypatch.setattr("reward_ablation.training.around.launch.processes.find_spec", lambda package: None)
    with pytest.raises(StudyError, match=told):
        check_installed(Layout(gpus=2, **layout))


@pytest.mark.parametrize(
    ("failures", "status", "told"),
    [
        ({0: GOES_ON, 1: GOES_ON}, GOES_ON, ""),
        ({1: GOES_ON, 0: -signal.SIGTERM}, GOES_ON, ""),  # the launcher has ended what waited for the other
        ({0: 1, 1: -signal.SIGKILL}, 1, ""),  # the other one hung, and did not end when it was told
        ({0: 1, 1: GOES_ON}, 1, ""),  # the other one lost its peer, which is an error that may pass
        ({1: -signal.SIGKILL, 0: 1}, GOES_ON, "error: process 1 of the run was ended by SIGKILL; if for want of mem"),
        ({0: GOES_ON, 1: -signal.SIGKILL}, GOES_ON, "error: process 1 of the run was ended by SIGKILL"),
    ],
)
def test_how_processes_ended(failures, status, told, capsys):
    """The first of them failed first."""
    assert status_of(failures, first=next(iter(failures))) == status
    said = capsys.readouterr().err
    assert said.startswith(told)
    assert bool(said) == bool(told)


def test_torch_s_launcher_heeds_signals_by_what_is_replaced_here():
    told = "torch has another handler now: the launcher has to take its place, or a second signal loses a checkpoint"
    assert "_terminate_process_handler" in inspect.getsource(elastic.PContext.start), told
    assert list(inspect.signature(elastic._terminate_process_handler).parameters) == ["signum", "frame"], told


@pytest.mark.slow
def test_processes_stop_together_at_a_signal_go_on_and_leave_none_behind_where_one_dies(command, tmp_path):
    """`test_processes.py` compares such a run with one that was not stopped."""
    run, log = tmp_path / "run" / "seed0", tmp_path / "log"
    training = {"per_device_train_batch_size": 4, "max_steps": 400}
    words = command(spec_with(training=training, processes=2, gradients={"every": 0}), run)
    with started(words, log) as process:
        wait_for("step 2/400", log, process)
        with pytest.raises(Held):
            take(run / ".lock")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == GOES_ON, log.read_text()
    told = re.search(r"train: stopped at step (\d+) of 400: SIGTERM; the .* from there\n$", log.read_text())
    take(run / ".lock").release()
    with started(words, log) as process:
        wait_for(f"step {int(told[1]) + 1}/400", log, process)
        children = psutil.Process(process.pid).children()
        ranks = {child.environ()["RANK"]: child for child in children if "RANK" in child.environ()}
        ranks["1"].kill()
        assert process.wait() == GOES_ON
        assert log.read_text().splitlines()[-1].startswith("error: process 1 of the run was ended by SIGKILL")
        assert not any(worker.is_running() for worker in ranks.values())
    first, second = json.loads((run / ".work" / "attempts.json").read_text())
    assert (first["ended"], first["to_step"], second["from_step"]) == ("SIGTERM", int(told[1]), int(told[1]))


#: Ends a run's own process where it would begin to train.
SITE = """
import sys
if "-m" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("-m") + 1] == "reward_ablation.training":
    sys.modules["reward_ablation.training.around.run"] = None
"""


def test_a_server_is_started_on_gpus_of_its_own(command, demo_model, tmp_path):
    """On a machine with three stand-in GPUs, of which one is taken, and with a stand-in for vLLM."""
    run, machine = tmp_path / "run", Machine(tmp_path / "machine", 3)
    path = make_vllm(tmp_path / "packages")["PYTHONPATH"]
    (tmp_path / "packages" / "sitecustomize.py").write_text(SITE)
    spec = spec_with(gpus=1, vllm={"mode": "server", "gpus": 1, "tensor_parallel_size": 1})
    words = [*command(spec, run), "--vllm-memory-percent", "85", "--vllm-sleep", "0"]
    try:
        with take(machine.locks[0]):
            how = {"env": machine.environment(PYTHONPATH=path), "capture_output": True, "text": True, "timeout": 120}
            result = subprocess.run(words, **how)
    finally:
        machine.clear()
    assert result.returncode == 1
    assert "import of reward_ablation.training.around.run halted" in result.stderr  # the process beside the server
    server = json.loads((run / "vllm.log").read_text().splitlines()[0])
    assert server["gpus"] == "2"  # the last of the two that the run has claimed
    assert server["arguments"][:2] == ["serve", str(demo_model)]
    options = dict(zip(server["arguments"][2::2], server["arguments"][3::2], strict=False))
    assert options["--gpu-memory-utilization"] == "0.85"
    assert 16 < int(options["--max-model-len"]) < 100  # the longest prompt, and a completion
    for lock in (*machine.locks, run / ".lock"):
        take(lock).release()


def test_it_waits_for_a_process_that_trains_the_run_and_refuses_other_code_than_planned(
    demo_model, problems, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("WORLD_SIZE", "1")  # as some batch systems set it
    job = job_of(spec_with(), tmp_path / "run", demo_model, problems)
    threading.Timer(0.5, take(job.run_dir / LOCK).release).start()
    with pytest.raises(StudyError, match="training code has changed since the workflow was started; start it again"):
        train(job, nodes=1)
    assert f"train: waiting for process {os.getpid()} on " in capsys.readouterr().err
    assert not (job.run_dir / RECORD).exists()


def test_a_launcher_of_the_user_s_own_is_refused(demo_model, problems, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    told = "^launch: TORCHELASTIC_RUN_ID is set, by torchrun or accelerate; start the training command without a launch"
    with pytest.raises(StudyError, match=told):
        train(job_of(spec_with(processes=2), tmp_path / "run", demo_model, problems), nodes=1)
    assert not (tmp_path / "run").exists()


def test_a_finished_run_needs_no_server(demo_model, problems, tmp_path, capsys):
    spec, run = spec_with(vllm={"mode": "server", "gpus": 1, "tensor_parallel_size": 1}), tmp_path / "run"
    job = job_of(spec, run, demo_model, problems)
    job = replace(job, code=training_digest(job.spec.functions))
    made = {"seed": spec.pop("seed"), "spec": spec, "code": job.code, "files": {}}
    inputs = {"model": sha256(demo_model / "model.json"), "problems": sha256(problems)}
    write_json({**made, "inputs": inputs}, run / HIDDEN_RECORD)
    assert train(job, nodes=1) == 0
    assert capsys.readouterr().out == f"train: {run} is trained already; to train it again, delete the folder\n"
    assert (run / RECORD).exists()  # as Snakemake wants it
    assert not (run / VLLM_LOG).exists()
