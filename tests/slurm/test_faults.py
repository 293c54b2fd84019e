"""Faults of clusters, caused on a real cluster: each study ends in the files of an undisturbed study."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from storage import fill, small_disk

from .cluster import Cluster, wait_until
from .studies import ClusterStudy

pytestmark = pytest.mark.slow


def attempts(study: ClusterStudy, arm: str) -> list[dict[str, Any]]:
    return study.records()[arm]["attempts"]


def finish(study: ClusterStudy, undisturbed: ClusterStudy, start: subprocess.Popen | None = None) -> str:
    """What a start (without one: a new start) prints that ends well when nothing holds the runs up any more.

    The bytes are those of the undisturbed study, and the attempts of each run lead from its first step to its last.
    """
    study.slow(0)
    start = start or study.start(*study.targets())
    assert start.wait(200) == 0, study.said()
    assert study.digests() == undisturbed.digests()
    for arm, record in study.records().items():
        assert record["attempts"][0]["from_step"] == 0, arm
        assert record["attempts"][-1]["to_step"] == record["steps"] == study.config["training"]["max_steps"], arm
    return study.said()


def assert_nothing_lost(study: ClusterStudy, arm: str, ended: str) -> None:
    """Two attempts: the first saved what it had, the second went on from there."""
    first, second = attempts(study, arm)
    assert first["ended"] == ended
    assert first["to_step"] == second["from_step"]
    assert second["ended"] == "done"


@pytest.mark.long
def test_a_trainer_that_is_killed_once(study: ClusterStudy, undisturbed: ClusterStudy):
    (study.folder / "kill").touch()
    assert "failed" in finish(study, undisturbed)
    assert sorted(len(attempts(study, arm)) for arm in ("one", "two")) == [1, 2]


@pytest.mark.long
def test_a_time_limit_hit_in_training(study: ClusterStudy, undisturbed: ClusterStudy):
    """Three minutes: enough to begin training on a busy machine, too little for 24 steps of 12 s."""
    study.site["train"]["hours"] = 3 / 60
    study.slow(12)
    start = study.start(*study.targets())
    wait_until("a limit", lambda: "time limit" in study.log_of("one") + study.log_of("two"), 300)
    finish(study, undisturbed, start)
    limited = [arm for arm in ("one", "two") if len(attempts(study, arm)) == 2]
    assert limited
    for arm in limited:
        assert_nothing_lost(study, arm, "time limit")


@pytest.mark.long
def test_a_cancelled_run_is_named_the_others_finish_and_the_next_start_goes_on(
    study: ClusterStudy, undisturbed: ClusterStudy, cluster: Cluster
):
    start = study.start_training(3)
    cluster.run("scancel", study.job_of("one"))
    wait_until("the message", lambda: "was cancelled" in study.said())
    study.slow(0)
    assert start.wait(200) == 1
    assert "train one-" in study.said()
    assert "was cancelled; the next start goes on with it" in study.said()
    assert study.records().keys() == {"two"}
    finish(study, undisturbed)
    assert_nothing_lost(study, "one", "SIGTERM")
    assert len(attempts(study, "two")) == 1


@pytest.mark.long
@pytest.mark.parametrize("cancels", [False, True])
def test_preemption(study: ClusterStudy, undisturbed: ClusterStudy, cluster: Cluster, cancels: bool):
    """Slurm starts the jobs again, or cancels them; then they are submitted again, here after 3 s of patience."""
    study.site["partition"] = "low_cancel" if cancels else "gpu"
    start = study.start_training(3, *(["--slurm-study-patience", "3"] if cancels else []))
    jobs = [study.job_of(arm) for arm in ("one", "two")]
    cluster.submit("sleep 1", "--partition=high", "--nodes=2", "--exclusive")
    if cancels:
        wait_until("both are submitted again", lambda: study.said().count("submitted as") == 4, 120)
    for job in [] if cancels else jobs:
        cluster.wait_for(job, "PENDING")
        cluster.start_now(job)
    told = finish(study, undisturbed, start)
    assert told.count("submitted as") == (4 if cancels else 2)
    assert ("was preempted and Slurm did not start it again" in told) == cancels
    for arm in ("one", "two"):
        assert_nothing_lost(study, arm, "SIGTERM")


@pytest.mark.long
def test_a_node_that_dies_and_comes_back(study: ClusterStudy, undisturbed: ClusterStudy, cluster: Cluster):
    study.python = sys.executable  # a fork would train again before Slurm has done with the job as it was
    start = study.start_training(11)
    job = study.job_of("one")
    node = next(there.nodes for there in cluster.jobs() if there.id == job)
    cluster.kill_node(node)
    cluster.start_node(node)
    for waiting in cluster.jobs():
        if waiting.state == "PENDING":
            cluster.start_now(waiting.id)
    finish(study, undisturbed, start)
    first, second = attempts(study, "one")
    assert first["ended"] == "killed"
    assert second["from_step"] == 8, "the last checkpoint: a dead node saves nothing"


@pytest.mark.long
def test_a_controller_that_is_away_for_a_minute(study: ClusterStudy, undisturbed: ClusterStudy, cluster: Cluster):
    """One run ends, and the other is to be submitted, while nobody answers."""
    study.slow()
    start = study.start(*study.targets(), "--jobs", "1")
    wait_until("a step", lambda: "step 3/" in study.log_of("one") + study.log_of("two"), 120)
    cluster.stop_controller()
    study.slow(0)
    with pytest.raises(subprocess.TimeoutExpired):
        start.wait(60)
    cluster.start_controller()
    assert "jobs run on" in finish(study, undisturbed, start)
    assert [len(attempts(study, arm)) for arm in ("one", "two")] == [1, 1]


def test_ctrl_c_saves_all_runs(study: ClusterStudy, undisturbed: ClusterStudy, cluster: Cluster):
    start = study.start_training(3)
    study.slow(8)
    time.sleep(1)  # in a step that takes so long, the jobs are still ending when the next start looks
    start.send_signal(signal.SIGINT)
    assert start.wait(120) != 0
    again = study.start(*study.targets())
    wait_until("no job lives", lambda: not cluster.live())
    finish(study, undisturbed, again)
    for arm in ("one", "two"):
        assert_nothing_lost(study, arm, "SIGTERM")


@pytest.mark.long
def test_snakemake_killed_and_started_again_while_its_jobs_run(study: ClusterStudy, undisturbed: ClusterStudy):
    start = study.start_training(2)
    jobs = {study.job_of("one"), study.job_of("two")}
    os.killpg(start.pid, signal.SIGKILL)
    start.wait()
    again = study.start(*study.targets())
    wait_until("both are taken over", lambda: study.said().count("is the work of Slurm job") >= 2, 120)
    told = finish(study, undisturbed, again)
    assert "submitted as" not in told
    assert all(job in told for job in jobs)
    assert [len(attempts(study, arm)) for arm in ("one", "two")] == [1, 1]


@pytest.mark.long
def test_a_full_disk(study: ClusterStudy, undisturbed: ClusterStudy):
    with small_disk(study.results / "runs", "40m") as disk:
        filler = fill(disk, leave=1_000_000)
        status, told = study.train()
        assert status == 1
        assert told.count("submitted as") == 2, "one job a run"
        assert "no space left" in told.lower()
        assert "not submitted again, because the error would stay" in told
        assert "Traceback" not in told
        assert not study.records()
        filler.unlink()
        finish(study, undisturbed)
