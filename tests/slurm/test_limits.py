"""A study with more jobs than a user may have, on a real cluster that enforces its limits."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reward_ablation.report.cost.accounting import allocations

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
    with Cluster(tmp_path_factory.mktemp("limited") / "c", most_jobs=3) as running:
        yield running


@pytest.fixture
def twelve(undisturbed: ClusterStudy, limited: Cluster, tmp_path: Path) -> Iterator[ClusterStudy]:
    """A study of twelve runs, two of which are those of the undisturbed study."""
    study = undisturbed.beside(tmp_path / "study", limited, seeds=[0, 1, 2, 3, 4, 5])
    study.site["account"] = "lab"
    yield study
    study.end()


@pytest.mark.parametrize(
    ("bound", "reason", "advice"),
    [
        ("MaxTRESPerJob=cpu=1", "QOSMaxCpuPerJobLimit", "gives a job at most"),
        ("MinTRESPerJob=cpu=4", "QOSMin", "ask for more, or name another qos"),
    ],
)
def test_a_job_that_is_no_size_for_its_qos_is_refused_and_not_waited_for(
    limited: Cluster, twelve: ClusterStudy, bound: str, reason: str, advice: str
):
    """Slurm says of these limits what it says of the number of jobs, before the limit's name."""
    limited.run("sacctmgr", "--immediate", "add", "qos", reason, bound, "Flags=DenyOnLimit")
    limited.run("sacctmgr", "--immediate", "modify", "account", "lab", "set", f"qos+={reason}")
    twelve.site |= {"qos": reason, "train": {"hours": 0.5, "mem_gb": 1, "cpus": 2}}
    status, told = twelve.train()
    assert status == 1
    assert f"error: site.yaml: train: Slurm refuses such a job: sbatch: {reason}" in told
    assert advice in told
    assert not limited.jobs()


def test_snakemake_killed_at_the_limit_and_started_again(
    twelve: ClusterStudy, undisturbed: ClusterStudy, monkeypatch: pytest.MonkeyPatch
):
    waiting = "Slurm takes no more jobs now (AssocMaxSubmitJobLimit): 3 jobs are in, 9 to go; they are submitted as"
    twelve.slow(2)
    start = twelve.start(*twelve.targets())
    wait_until("the limit", lambda: waiting in twelve.said(), 120)
    jobs = {job.id for job in twelve.cluster.jobs()}
    assert len(jobs) == 3
    os.killpg(start.pid, signal.SIGKILL)
    start.wait()

    again = twelve.start(*twelve.targets(), log="again.log")
    wait_until("the limit, once more", lambda: waiting in twelve.said("again.log"), 120)
    assert twelve.said("again.log").count("is the work of Slurm job") == 3
    twelve.slow(0)
    assert again.wait(400) == 0, twelve.said("again.log")

    told = twelve.said("again.log")
    assert told.count("submitted as Slurm job") == 9
    assert told.count("Slurm takes no more jobs now") == 1, "and again after minutes only"
    assert told.count("Slurm has taken all jobs that waited") == 1
    seeds = [int(name[-1]) for name in twelve.slurm_jobs()]
    assert seeds == sorted(seeds), "the first seed of all arms first"
    numbers = {job.name: job.id for job in twelve.cluster.jobs()}
    assert len(numbers) == len(seeds) == 12, "each once"
    assert jobs <= set(numbers.values())
    monkeypatch.setenv("SLURM_CONF", twelve.cluster.environment["SLURM_CONF"])
    wait_until("the accounting", lambda: len(allocations(list(numbers.values()))) == 12)
    assert all(each.start > 0 for each in allocations(list(numbers.values()))), "in seconds since 1970"
    records = [json.loads(path.read_text()) for path in twelve.results.glob("runs/*/*/run.json")]
    assert [len(record["attempts"]) for record in records] == [1] * 12
    made = twelve.digests()
    assert {path: made.get(path) for path in undisturbed.digests()} == undisturbed.digests()
