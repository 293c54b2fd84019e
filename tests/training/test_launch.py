"""The processes of a run: as many as its spec says. They stop together, and none is left behind."""

import inspect
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest
from torch.distributed.elastic.multiprocessing import api as elastic

from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.system.locks import Held, take
from reward_ablation.training.around.launch.launcher import accelerate_options, status_of
from reward_ablation.training.around.launch.processes import srun_command

from .conftest import spec_with
from .interrupting import attempts

JOB = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_JOB_NUM_NODES": "2"}


def test_srun_starts_a_launcher_on_each_node():
    command = srun_command(2, {**JOB, "SLURM_CPUS_PER_TASK": "4"})
    assert command[0] == "srun"
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--kill-on-bad-exit=1"} < set(command)
    assert "--cpus-per-task=4" in command
    assert not any(option.startswith("--cpus") for option in srun_command(2, JOB))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "launch.nodes: a run on 2 nodes must be started by a Slurm job's batch script, and this process is not"),
        (
            {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"},
            "and this process is not in one",
        ),  # salloc, on a login node
        ({**JOB, "SLURM_JOB_NUM_NODES": "1"}, "launch.nodes: the run needs 2 nodes, and Slurm job 7 has 1; submit"),
    ],
)
def test_nodes_that_are_not_there_are_told(environment, message):
    with pytest.raises(StudyError, match=re.escape(message)):
        srun_command(2, environment)


def test_ranks_follow_the_order_of_the_nodes():
    environment = {"SLURM_NODEID": "1", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7"}
    options = accelerate_options(4, 2, 1234, environment=environment)
    values = dict(zip(options[1::2], options[2::2], strict=True))
    assert values["--num_processes"] == "4"
    assert values["--num_machines"] == "2"
    assert values["--machine_rank"] == "1"
    assert (values["--main_process_ip"], values["--main_process_port"]) == ("10.0.0.7", "1234")
    assert values["--rdzv_backend"] == "static"


@pytest.mark.parametrize(
    ("failures", "status", "told"),
    [
        ({0: GOES_ON, 1: GOES_ON}, GOES_ON, ""),
        ({1: GOES_ON, 0: -signal.SIGTERM}, GOES_ON, ""),  # the launcher has ended what waited for the other
        ({0: 1, 1: -signal.SIGTERM}, 1, ""),  # it has told its error
        ({0: 1, 1: -signal.SIGKILL}, 1, ""),  # the other one hung, and did not end when it was told
        ({0: 255, 1: -signal.SIGTERM}, 1, ""),
        ({0: 1, 1: GOES_ON}, 1, ""),  # the other one lost its peer, which is an error that may pass
        (
            {1: -signal.SIGKILL, 0: 1},
            GOES_ON,
            "error: process 1 of the run was ended by SIGKILL; if for want of memory, ask",
        ),
        ({0: GOES_ON, 1: -signal.SIGKILL}, GOES_ON, "error: process 1 of the run was ended by SIGKILL"),
        ({1: -signal.SIGSEGV}, GOES_ON, "error: process 1 of the run was ended by SIGSEGV\n"),
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


@pytest.fixture
def started(command, tmp_path):
    """`started(run, **training)` is a run of six steps that trains in two processes, and its log."""

    @contextmanager
    def start(run, **training):
        training = {"per_device_train_batch_size": 4, "max_steps": 6, **training}
        launched = command(spec_with(training=training, processes=2), run)
        with (tmp_path / "log").open("w+") as log:
            process = subprocess.Popen(launched, stdout=log, stderr=log)
            try:
                yield process, lambda: (tmp_path / "log").read_text()
            finally:
                process.kill()
                process.wait()

    return start


def wait_for(text, log, process):
    deadline = time.monotonic() + 240
    while text not in log():
        assert process.poll() is None, log()
        assert time.monotonic() < deadline, log()
        time.sleep(0.05)


def workers(process):
    """The run's processes by rank."""
    found = {child.environ()["RANK"]: child for child in process.children() if "RANK" in child.environ()}
    assert sorted(found) == ["0", "1"]
    return found


@pytest.mark.slow
def test_a_signal_to_the_command_stops_all_processes_and_they_go_on(started, tmp_path):
    """`test_processes.py` compares such a run with one that was not stopped."""
    run = tmp_path / "run" / "seed0"
    with started(run) as (process, log):
        wait_for("step 2/6", log, process)
        with pytest.raises(Held):
            take(run / ".lock")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == GOES_ON, log()
        assert re.fullmatch(r"train: stopped at step \d of 6: SIGTERM; the .* from there", log().splitlines()[-1])
    take(run / ".lock").release()
    with started(run) as (process, log):
        assert process.wait() == 0, log()
    assert [ended for _, _, ended in attempts(run)] == ["SIGTERM", "done"]


@pytest.mark.slow
def test_a_process_that_dies_leaves_none_behind(started, tmp_path):
    with started(tmp_path / "run" / "seed0") as (process, log):
        wait_for("step 1/6", log, process)
        both = workers(psutil.Process(process.pid))
        both["1"].kill()
        assert process.wait() == GOES_ON
        assert log().splitlines()[-1].startswith("error: process 1 of the run was ended by SIGKILL")
        assert not any(worker.is_running() for worker in both.values())


def test_another_number_of_processes_than_asked_for_is_refused(train, tmp_path):
    with pytest.raises(StudyError, match="the number of the run's processes must be 2, but is 1; start the training"):
        train("run", processes=2)
    assert not (tmp_path / "run").exists()


def test_a_launcher_of_the_user_s_own_is_refused(command, tmp_path):
    launched = command(spec_with(processes=2), tmp_path / "run" / "seed0")
    environment = {**os.environ, "TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "2"}  # as torchrun does
    result = subprocess.run(launched, capture_output=True, text=True, env=environment)
    assert result.returncode == 1
    assert result.stderr == (
        "error: launch: TORCHELASTIC_RUN_ID is set, by torchrun or accelerate; start the training command without a "
        "launcher of your own\n"
    )
    assert not (tmp_path / "run").exists()


def test_the_launcher_imports_no_more_than_it_starts_with():
    """The processes that it starts import transformers and TRL side by side; it would do so before them."""
    program = "import sys, reward_ablation.training.around.launch.launcher; print('transformers' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
