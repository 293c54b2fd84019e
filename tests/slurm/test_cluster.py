"""The test cluster treats batch jobs as a real cluster does, and a training process in a job notices the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from .cluster import Cluster, is_dead, missing_programs, wait_until

ROOT = Path(__file__).parents[2]

TRAINER = """
import os, signal, sys, time

def save(*_):
    print("SIGTERM", flush=True)
    time.sleep(float(sys.argv[1]))
    print("saved", flush=True)
    sys.exit(3)

signal.signal(signal.SIGTERM, save)
print("ready", os.environ.get("SLURM_RESTART_COUNT", "0"), flush=True)
time.sleep(600)
"""

#: Outlives SIGTERM, as Snakemake does, and runs a shell command.
MANAGER = """
import signal, subprocess, sys

signal.signal(signal.SIGTERM, lambda *_: None)
sys.exit(subprocess.run(["bash", "-c", sys.argv[1]]).returncode)
"""


class Commands(NamedTuple):
    """Command lines: of a trainer that saves for a second at SIGTERM, one that saves for a minute, and a manager."""

    trainer: str
    slow_trainer: str
    manager: str


@pytest.fixture
def commands(tmp_path):
    trainer, manager = tmp_path / "trainer.py", tmp_path / "manager.py"
    trainer.write_text(TRAINER)
    manager.write_text(MANAGER)
    python = sys.executable
    return Commands(f"{python} {trainer} 1", f"{python} {trainer} 60", f"{python} {manager}")


def test_job_completes_on_a_node_with_its_variables(cluster):
    job = cluster.submit("env", "--job-name=hello", "--gres=gpu:2", "--cpus-per-task=3", "--nodes=1")
    assert cluster.wait_for(job) == "COMPLETED"
    found = next(one for one in cluster.jobs() if one.id == job)
    assert (found.name, found.partition, found.reason) == ("hello", "gpu", "None")
    variables = dict(line.split("=", 1) for line in cluster.log(job).splitlines() if "=" in line)
    assert variables["SLURM_JOB_ID"] == job
    assert variables["SLURM_JOB_NODELIST"] == variables["SLURMD_NODENAME"] == found.nodes
    assert variables["SLURM_CPUS_PER_TASK"] == "3"
    assert variables["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert variables["SLURM_CONF"] == cluster.environment["SLURM_CONF"]


def test_failing_job_has_its_status(cluster):
    job = cluster.submit("exit 7")
    assert cluster.wait_for(job) == "FAILED"
    assert "ExitCode=7:0" in cluster.run("scontrol", "show", "job", job)


def test_jobs_on_one_node_get_different_gpus_and_a_third_waits(cluster):
    options = ("--gres=gpu:1", "--nodelist=n1")
    jobs = [cluster.submit('echo "gpu $CUDA_VISIBLE_DEVICES"; sleep 600', *options) for _ in range(2)]
    assert {cluster.wait_log(job, "gpu ").strip() for job in jobs} == {"gpu 0", "gpu 1"}
    third = cluster.submit("true", *options)
    wait_until("a reason to wait", lambda: "Resources" in {one.reason for one in cluster.jobs() if one.id == third})
    cluster.run("scancel", jobs[0])
    assert cluster.wait_for(third) == "COMPLETED"


def test_srun_starts_a_task_on_each_node_of_a_job(cluster):
    job = cluster.submit("srun printenv SLURMD_NODENAME", "--nodes=2", "--ntasks-per-node=1", "--gres=gpu:1")
    assert cluster.wait_for(job) == "COMPLETED"
    assert sorted(cluster.log(job).split()) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("script", "saves"),
    [
        ("exec {trainer}", True),
        ("exec {manager} 'exec {trainer}'", True),  # a grandchild
        ("{trainer}", False),  # the shell dies of SIGTERM, and Slurm ends what is left of the job at once
        ("trap : TERM; {trainer}", True),
        ("exec {slow_trainer}", False),  # SIGKILL after KillWait
    ],
)
def test_scancel_gives_a_process_time_to_save_while_the_batch_script_lives(cluster, commands, script, saves):
    job = cluster.submit(script.format(**commands._asdict()))
    cluster.wait_log(job, "ready")
    cluster.run("scancel", job)
    assert cluster.wait_for(job) == "CANCELLED"
    cluster.wait_idle()
    assert ("saved" in cluster.log(job)) == saves


@pytest.mark.slow  # the controller looks at time limits every 30 s
@pytest.mark.long
def test_signals_at_a_time_limit(cluster, commands):
    """The early signal comes 60 to 90 seconds before the limit: time enough to save on a busy machine."""
    options = ("--time=2", "--mem=100")
    plain = cluster.submit(f"exec {commands.manager} 'exec {commands.trainer}'", *options)
    early = cluster.submit(f"exec {commands.manager} 'exec {commands.trainer}'", "--signal=TERM@90", *options)
    early_step = cluster.submit(f"exec srun {commands.trainer}", "--signal=TERM@90", *options)
    assert cluster.wait_for(early_step, seconds=300) == "FAILED"
    assert "saved" in cluster.log(early_step)
    # Without a step, nothing gets the early signal.
    assert "SIGTERM" not in cluster.log(early)
    for job in (plain, early):
        assert cluster.wait_for(job, seconds=300) == "TIMEOUT"
        assert cluster.log(job).count("SIGTERM") == 1
        assert "saved" in cluster.log(job)


@pytest.mark.parametrize("options", [(), ("--export=NONE",)])
def test_orphans_of_a_job_end_with_it(cluster, options):
    job = cluster.submit("setsid sleep 600 & echo $!; disown", *options)
    assert cluster.wait_for(job) == "COMPLETED"
    cluster.wait_idle()
    pid = int(cluster.log(job))
    assert not psutil.pid_exists(pid) or is_dead(psutil.Process(pid))


def test_stop_of_the_controller_leaves_jobs_unharmed(cluster):
    jobs = [cluster.submit("sleep 1; echo woke"), cluster.submit("sleep 600")]
    for job in jobs:
        cluster.wait_for(job, "RUNNING")
    cluster.stop_controller()
    with pytest.raises(RuntimeError, match="Unable to contact slurm controller"):
        cluster.run("squeue")
    cluster.wait_log(jobs[0], "woke")
    cluster.start_controller()
    assert cluster.wait_for(jobs[0]) == "COMPLETED"
    assert cluster.state(jobs[1]) == "RUNNING"


def test_job_of_a_killed_node_runs_again_when_the_node_is_back(cluster, commands):
    job = cluster.submit(f"exec {commands.trainer}", "--nodelist=n1", "--open-mode=append")
    once = cluster.submit(f"exec {commands.trainer}", "--nodelist=n1", "--no-requeue")
    for one in (job, once):
        cluster.wait_log(one, "ready 0")
    cluster.kill_node("n1")
    assert cluster.wait_for(job, "PENDING") == "PENDING"
    assert cluster.wait_for(once) == "NODE_FAIL"
    cluster.start_node("n1")
    cluster.start_now(job)
    assert cluster.wait_log(job, "ready 1").split() == ["ready", "0", "ready", "1"]


def test_preempted_job_saves_and_runs_again(cluster, commands):
    whole_node = ("--nodelist=n1", "--nodes=1", "--exclusive")
    job = cluster.submit(f"exec {commands.trainer}", "--open-mode=append", *whole_node)
    cluster.wait_log(job, "ready 0")
    urgent = cluster.submit("true", "--partition=high", *whole_node)
    assert cluster.wait_for(urgent) == "COMPLETED"
    assert "saved" in cluster.log(job)
    cluster.start_now(job)
    cluster.wait_log(job, "ready 1")
    assert cluster.state(job) == "RUNNING"


def test_preempted_job_of_a_cancelling_partition_is_over(cluster, commands):
    whole_node = ("--nodelist=n1", "--nodes=1", "--exclusive")
    job = cluster.submit(f"exec {commands.trainer}", "--partition=low_cancel", *whole_node)
    cluster.wait_log(job, "ready 0")
    urgent = cluster.submit("true", *whole_node)
    assert cluster.wait_for(urgent) == "COMPLETED"
    assert cluster.state(job) == "PREEMPTED"
    assert "saved" in cluster.log(job)


@pytest.mark.parametrize("fault", ["controller", "node", "drained"])
def test_clear_mends_the_cluster(cluster, fault):
    cluster.submit("sleep 600")
    match fault:
        case "controller":
            cluster.stop_controller()
        case "node":
            cluster.kill_node("n1", noticed=False)
        case "drained":
            cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    cluster.clear()
    job = cluster.submit("srun true", "--nodes=2")
    assert cluster.wait_for(job) == "COMPLETED"


@pytest.mark.skipif(bool(missing_programs(accounting=True)), reason="needs slurmdbd and mariadb-server-core")
def test_accounting_remembers_jobs(tmp_path):
    with Cluster(tmp_path / "c", nodes=1, accounting=True) as accounted:
        jobs = [accounted.submit("true", "--gres=gpu:1"), accounted.submit("sleep 600")]
        accounted.wait_for(jobs[1], "RUNNING")
        accounted.run("scancel", jobs[1])
        command = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=JobID,State")
        told = [f"{jobs[0]}|COMPLETED", f"{jobs[1]}|CANCELLED by {os.getuid()}"]
        wait_until("sacct to know both jobs", lambda: accounted.run(*command).splitlines() == told)


def test_cluster_from_a_shell_is_a_second_one_and_leaves_nothing(cluster, tmp_path):
    with _from_a_shell(tmp_path / "c", "--nodes=1", "--gpus=4") as process:
        other = Cluster(tmp_path / "c")
        other.run(
            "sbatch", "--job-name=theirs", "--gres=gpu:4", f"--output={tmp_path}/log", "--wrap=echo $$; sleep 600"
        )
        wait_until("the job", lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text().endswith("\n"))
        processes = [*_children(process), psutil.Process(int((tmp_path / "log").read_text()))]
        assert "theirs" not in {job.name for job in cluster.jobs()}
        process.terminate()
    assert process.returncode == 0
    assert all(is_dead(one) for one in processes)


def test_daemons_end_with_a_killed_process(tmp_path):
    with _from_a_shell(tmp_path / "c") as process:
        daemons = _children(process)
        process.kill()
    wait_until("the end of the daemons", lambda: all(is_dead(daemon) for daemon in daemons))


@contextmanager
def _from_a_shell(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start a cluster by its command, and wait for the line that says where its configuration is."""
    command = [sys.executable, "-m", "tests.slurm.cluster", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"export SLURM_CONF={folder}/slurm.conf\n"
            yield process
        finally:
            process.terminate()


def _children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    assert {"munged", "slurmctld", "slurmd"} <= {child.name() for child in children}
    return children
