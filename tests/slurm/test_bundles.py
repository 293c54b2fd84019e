"""The evaluation of a run in the Slurm job that trained the run, on a real cluster, also where something goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from .cluster import Cluster, wait_until
from .studies import ClusterStudy

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def study(study: ClusterStudy) -> ClusterStudy:
    """A study before its training whose evaluations follow in the same Slurm jobs."""
    study.site["bundle"] = "run"
    return study


def in_evaluation(study: ClusterStudy) -> tuple[subprocess.Popen, list[str]]:
    """A start, and the Slurm jobs of both runs, once both runs are evaluated there and Snakemake knows it."""
    study.hold_evaluations()
    start = study.start(*study.targets())
    wait_until("both evaluations", lambda: study.said().count("is the work of Slurm job") >= 2, 200)
    return start, [job.id for job in study.cluster.jobs() if study.prefix in job.name]


def assert_as_evaluated(study: ClusterStudy, evaluated: ClusterStudy) -> None:
    """The bytes are those of the undisturbed study, and each run was trained once."""
    assert study.digests() == evaluated.digests()
    assert [len(record["attempts"]) for record in study.records().values()] == [1, 1]


def test_a_run_and_its_evaluation_are_one_slurm_job_and_the_run_knows_it(evaluated: ClusterStudy, study: ClusterStudy):
    assert sorted(name.partition("-")[0] for name in evaluated.slurm_jobs()) == ["train.one", "train.two"]
    assert [record["attempts"][0]["slurm"]["parts"] for record in evaluated.records().values()] == [2, 2]
    assert not [path for path in evaluated.results.glob("logs/slurm/**/*") if path.is_file()]
    study.site["bundle"] = None
    alone = study.beside(study.folder.parent / "alone")
    status, told = alone.run(*study.targets(), *evaluated.targets())
    assert status == 0, told
    assert len(alone.slurm_jobs()) == 4
    assert alone.digests() == evaluated.digests()


def test_a_node_that_dies_in_the_evaluation(study: ClusterStudy, evaluated: ClusterStudy, cluster: Cluster):
    """Slurm starts the job again, which leaves out the training."""
    start, [first, _] = in_evaluation(study)
    node = next(there.nodes for there in cluster.jobs() if there.id == first)
    cluster.kill_node(node)
    cluster.start_node(node)  # not `start_now`: the signal to the lost jobs might reach those that begin at once
    study.release()
    assert start.wait(200) == 0, study.said()
    assert study.said().count("submitted as") == 2
    assert_as_evaluated(study, evaluated)


def test_snakemake_killed_and_started_again_in_the_evaluation(study: ClusterStudy, evaluated: ClusterStudy):
    start, jobs = in_evaluation(study)
    os.killpg(start.pid, signal.SIGKILL)
    start.wait()

    present = study.config["evaluation"]
    study.config["evaluation"] = present | {"max_new_tokens": 3}
    status, told = study.run(*study.targets(), log="other.log")
    assert status == 1
    assert f"Slurm job {min(jobs, key=int)} of an earlier start still works on evaluate " in told
    assert "with other code or settings" in told
    study.config["evaluation"] = present

    again = study.start(*study.targets(), log="again.log")
    wait_until("both are taken over", lambda: study.said("again.log").count("is the work of Slurm job") == 2, 120)
    study.release()
    assert again.wait(200) == 0, study.said("again.log")
    assert "submitted as" not in study.said("again.log")
    assert_as_evaluated(study, evaluated)


def test_a_cancelled_evaluation_is_submitted_alone_and_the_runs_are_kept(
    study: ClusterStudy, evaluated: ClusterStudy, cluster: Cluster
):
    start, [first, _] = in_evaluation(study)
    cluster.run("scancel", first)
    wait_until("the message", lambda: "was cancelled; the next start goes on with it" in study.said())
    study.release()
    assert start.wait(200) == 1
    status, told = study.train()
    assert status == 0, told
    assert told.count("submitted as") == 1
    assert_as_evaluated(study, evaluated)
