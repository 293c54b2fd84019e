"""One run on two nodes, by DDP over gloo, has the bytes of one node with two processes, also after interruptions."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from training.conftest import make_model, make_problems, spec_with, training_command
from training.interrupting import attempts, digests

from .cluster import Cluster
from .studies import ClusterStudy

pytestmark = [pytest.mark.slow, pytest.mark.long]

SETTINGS = {"per_device_train_batch_size": 4, "max_steps": 8, "save_strategy": "steps", "save_steps": 2}
TWO_NODES = ("--nodes=2", "--ntasks-per-node=1", "--no-requeue")


class Made(NamedTuple):
    """The command that trains a run in a folder, and digests of the outputs that it has on one node."""

    command: Callable[[Path], list[str]]
    digests: dict[str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("one_node")
    model, problems = make_model(folder / "model"), make_problems(folder / "train.parquet")

    def command(run: Path) -> list[str]:
        return training_command(spec_with(training=SETTINGS, processes=2), run, model, problems)

    result = subprocess.run(command(folder / "run"), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return Made(command, digests(folder / "run"))


@pytest.fixture
def submit(cluster: Cluster, made: Made, tmp_path: Path) -> Callable[..., str]:
    """`submit()` starts or goes on with the run in `tmp_path / "run"`, on two nodes."""

    def submit(*options: str) -> str:
        command = shlex.join([*made.command(tmp_path / "run"), "--nodes", "2"])
        return cluster.submit(f"exec {command} 2>&1", *TWO_NODES, *options)

    return submit


def assert_finished(cluster: Cluster, job: str) -> None:
    assert cluster.wait_for(job, seconds=300) == "COMPLETED", cluster.log(job)


def in_third_step(cluster: Cluster, submit: Callable[..., str]) -> str:
    job = submit()
    cluster.wait_log(job, "step 3/8", seconds=240)
    return job


def test_two_nodes_train_what_one_does(cluster, submit, made, tmp_path):
    assert_finished(cluster, submit("--cpus-per-task=2"))
    assert attempts(tmp_path / "run") == [(0, 8, "done")]
    assert digests(tmp_path / "run") == made.digests


@pytest.mark.parametrize("how", [["--signal=TERM", "--batch"], []], ids=["to the batch script alone", "to all"])
def test_a_signal_stops_all_processes_at_one_step_and_they_go_on(cluster, submit, made, tmp_path, how):
    job = in_third_step(cluster, submit)
    cluster.run("scancel", *how, job)
    assert cluster.wait_for(job, seconds=120) == ("FAILED" if how else "CANCELLED")
    assert "of 8: SIGTERM; the same command goes on from there" in cluster.log(job)
    assert_finished(cluster, submit())
    first, second = attempts(tmp_path / "run")
    assert first[1] >= 3  # the step that was under way is saved, not only every second one
    assert (first[2], second) == ("SIGTERM", (first[1], 8, "done"))
    assert digests(tmp_path / "run") == made.digests


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_node_that_dies_ends_the_attempt_and_the_next_goes_on(cluster, submit, made, tmp_path, node):
    job = in_third_step(cluster, submit)
    cluster.kill_node(node)
    assert cluster.wait_for(job, seconds=120) != "COMPLETED"
    cluster.start_node(node)
    cluster.wait_idle()
    assert_finished(cluster, submit())
    (_, _, ended), second = attempts(tmp_path / "run")
    assert ended == "killed"
    assert second[0] in (2, 4)
    assert digests(tmp_path / "run") == made.digests


def test_a_process_that_dies_ends_those_on_the_other_node(cluster, submit, made, tmp_path):
    job = in_third_step(cluster, submit)
    marks = {"SLURM_JOB_ID": job, "RANK": "1"}.items()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if marks <= process.environ().items() and "reward_ablation.training" in process.cmdline():
                process.kill()
    assert cluster.wait_for(job, seconds=120) == "FAILED"
    assert "error: process 1 of the run was ended by SIGKILL" in cluster.log(job)
    assert_finished(cluster, submit())
    assert digests(tmp_path / "run") == made.digests


def test_an_arm_that_asks_for_two_nodes_gets_them_and_is_not_trained_again_on_one(cluster, tmp_path):
    study = ClusterStudy(tmp_path / "study", cluster, launch={"gpus": 0, "processes": 2})
    study.config["training"] |= {"per_device_train_batch_size": 8, "max_steps": 4}
    arms = study.config["arms"]["arms"] = {"one": {"weights": {"length": 1}}}
    arms["one"] |= {"launch": {"nodes": 2}, "resources": {"mem_mb": 500, "runtime": "2h"}}
    status, told = study.train()
    assert status == 0, told
    [attempt] = study.records()["one"]["attempts"]
    assert attempt["hardware"]["processes"] == 2
    assert attempt["slurm"]["nodes"] == 2
    arms["one"] = {"weights": {"length": 1}}
    status, told = study.run("--dry-run", *study.targets())
    assert status == 0, told
    assert "Nothing to be done" in told
