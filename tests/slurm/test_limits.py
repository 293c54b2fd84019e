"""A study of more jobs than a user may have, on a real cluster that keeps to its limits."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, missing_programs, wait_until
from .studies import ClusterStudy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(missing_programs(accounting=True)), reason="needs slurmdbd and mariadb-server-core"),
]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that takes three jobs at a time."""
    with Cluster(tmp_path_factory.mktemp("limited") / "c", accounting=True, most_jobs=3) as running:
        yield running


@pytest.fixture
def twelve(undisturbed: ClusterStudy, limited: Cluster, tmp_path: Path) -> Iterator[ClusterStudy]:
    """A study of twelve runs, two of which are those of the undisturbed study."""
    study = undisturbed.beside(tmp_path / "study", limited, seeds=[0, 1, 2, 3, 4, 5])
    study.site["account"] = "lab"
    yield study
    study.end()


def test_a_job_that_is_larger_than_its_qos_allows_is_refused_and_not_waited_for(limited: Cluster, twelve: ClusterStudy):
    """Slurm says of this limit what it says of the number of jobs, before the limit's name."""
    limited.run("sacctmgr", "--immediate", "add", "qos", "small", "MaxTRESPerJob=cpu=1", "Flags=DenyOnLimit")
    limited.run("sacctmgr", "--immediate", "modify", "account", "lab", "set", "qos+=small")
    twelve.site |= {"qos": "small", "train": {"hours": 0.5, "mem_gb": 1, "cpus": 2}}
    status, told = twelve.train()
    assert status == 1
    assert "error: site.yaml: train: Slurm refuses such a job: sbatch: QOSMaxCpuPerJobLimit" in told
    assert not limited.jobs()


def test_snakemake_killed_at_the_limit_and_started_again(twelve: ClusterStudy, undisturbed: ClusterStudy):
    waiting = "Slurm takes no more jobs now (AssocMaxSubmitJobLimit): 9 submissions wait here"
    twelve.slow(2)
    start = twelve.start(*twelve.targets())
    wait_until("the limit", lambda: waiting in twelve.told(), 120)
    jobs = {job.id for job in twelve.cluster.jobs()}
    assert len(jobs) == 3
    os.killpg(start.pid, signal.SIGKILL)
    start.wait()

    status, told = twelve.run("--dry-run", *twelve.targets())
    assert status == 0, told
    assert "site.yaml: not checked whether Slurm takes these jobs: sbatch: AssocMaxSubmitJobLimit" in told

    again = twelve.start(*twelve.targets(), log="again.log")
    wait_until("the limit, once more", lambda: waiting in twelve.told("again.log"), 120)
    assert twelve.told("again.log").count("is the work of Slurm job") == 3
    twelve.slow(0)
    assert again.wait(400) == 0, twelve.told("again.log")

    assert twelve.told("again.log").count("submitted as") == 9
    names = {job.name: job.id for job in twelve.cluster.jobs()}
    assert len(names) == len(twelve.cluster.jobs()) == 12, "each once"
    assert jobs <= set(names.values())
    records = [json.loads(path.read_text()) for path in twelve.results.glob("runs/*/*/run.json")]
    assert [len(record["attempts"]) for record in records] == [1] * 12
    made = twelve.digests()
    assert {path: made.get(path) for path in undisturbed.digests()} == undisturbed.digests()
