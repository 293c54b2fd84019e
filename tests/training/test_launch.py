"""The processes of a run: as many as its spec says. They stop together, and none is left behind."""

import inspect
import json
import re
import signal
import subprocess
import sys

import psutil
import pytest
from torch.distributed.elastic.multiprocessing import api as elastic

from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.system.locks import Held, take
from reward_ablation.training.around.launch.launcher import accelerate_options, status_of
from reward_ablation.training.around.launch.processes import srun_command

from .conftest import spec_with
from .interrupting import started, wait_for

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


def test_ranks_follow_the_order_of_the_nodes():
    environment = {"SLURM_NODEID": "1", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7"}
    options = accelerate_options(4, 2, 1234, environment=environment)
    expected = {"--num_processes": "4", "--num_machines": "2", "--machine_rank": "1", "--rdzv_backend": "static"}
    expected |= {"--main_process_ip": "10.0.0.7", "--main_process_port": "1234"}
    assert dict(zip(options[1::2], options[2::2], strict=True)).items() >= expected.items()


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


def test_the_launcher_imports_no_more_than_it_starts_with():
    """The processes that it starts import transformers and TRL side by side; it would do so before them."""
    program = "import sys, reward_ablation.training.around.launch.launcher; print('transformers' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
