"""The test cluster treats batch jobs as a real cluster does."""

from __future__ import annotations

import sys

import pytest

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


@pytest.fixture
def commands(tmp_path):
    """Command lines: of a trainer that saves for a second at SIGTERM, one that saves for a minute, and a manager."""
    trainer, manager = tmp_path / "trainer.py", tmp_path / "manager.py"
    trainer.write_text(TRAINER)
    manager.write_text(MANAGER)
    python = sys.executable
    return {
        "trainer": f"{python} {trainer} 1",
        "slow_trainer": f"{python} {trainer} 60",
        "manager": f"{python} {manager}",
    }


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
    job = cluster.submit(script.format(**commands))
    cluster.wait_log(job, "ready")
    cluster.run("scancel", job)
    assert cluster.wait_for(job) == "CANCELLED"
    cluster.wait_idle()
    assert ("saved" in cluster.log(job)) == saves


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
