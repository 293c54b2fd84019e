"""Runs that share a GPU, in jobs of a real Slurm that counts shards."""

from __future__ import annotations

import json
import sys

import pytest

from reward_ablation.cluster.preflight import refusal
from reward_ablation.cluster.request import arguments, request_of
from reward_ablation.cluster.site import Site
from reward_ablation.cluster.slurm import partitions

from .cluster import Cluster
from .configuration import SHARDS
from .studies import SITE, ClusterStudy

#: Claims its share as a run does, says which GPU it sees, and stays until it is told to end.
CLAIM = f"""
{sys.executable} -c 'import os; from reward_ablation.system.gpus import claim_gpus
assert claim_gpus(1, "train", share=0.5) == []; print("got", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)'
sleep 120
"""
HALF = {"gpu": 1, "gpu_parts": 420, "nodes": 1}
WHOLE = {"gpu": 1, "gpu_parts": 840, "nodes": 1}


@pytest.fixture
def there(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """The cluster's partitions."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return partitions()


def asked(resources, **site):
    return request_of(Site.model_validate({**SITE, "shards_per_gpu": SHARDS, **site}), "train", resources, threads=1)


def submit(cluster: Cluster, resources, script=CLAIM) -> str:
    """A job with the options of a training job, on the node n1, which has two GPUs."""
    return cluster.submit(script, *arguments(asked(resources), "gpus"), "--nodelist=n1")


def test_halves_run_two_at_a_time_on_a_gpu_and_a_whole_gpu_waits(cluster: Cluster):
    halves = [submit(cluster, HALF) for _ in range(3)]
    for job in halves:
        cluster.wait_log(job, "got ")
    gpus = [cluster.log(job).split()[1] for job in halves]
    assert sorted(map(gpus.count, set(gpus))) == [1, 2], gpus
    whole = submit(cluster, WHOLE, "echo got $CUDA_VISIBLE_DEVICES")
    fourth = submit(cluster, HALF)
    assert cluster.wait_for(whole, "PENDING") == "PENDING"
    assert cluster.state(fourth) == "PENDING"  # in the order of submission, though there is room for it
    alone = next(job for job, gpu in zip(halves, gpus, strict=True) if gpus.count(gpu) == 1)
    cluster.run("scancel", alone)
    assert cluster.wait_for(whole) == "COMPLETED"
    free = cluster.log(whole).split()[1]
    assert free not in {gpu for job, gpu in zip(halves, gpus, strict=True) if job != alone}
    cluster.wait_log(fourth, "got ")


@pytest.mark.parametrize("gpu_type", [None, "h200"])
def test_slurm_takes_shards_and_says_how_many_there_are(there, gpu_type):
    assert there["gpu"].nodes[0].shards == 2 * SHARDS
    assert there["gpu"].nodes[0].gpus == {"h200": 2}
    assert refusal(asked(HALF, gpu_type=gpu_type), "gpus", there) is None
    refused = refusal(asked({**HALF, "mem_mb": 17000}, gpu_type=gpu_type), "gpus", there)
    assert f"2 GPUs of type h200, {2 * SHARDS} shards of GPUs" in refused
    of_type = f"{gpu_type}:" if gpu_type else ""
    assert f"--gres=shard:{of_type}{SHARDS // 2}" in refused


@pytest.mark.slow
def test_a_study_whose_runs_share_gpus_is_checked_before_anything_is_submitted(study: ClusterStudy, cluster: Cluster):
    study.config["launch"] = {"gpus": 0.5}
    before = {job.id for job in cluster.jobs()}
    status, said = study.train()
    assert status == 1
    assert said.strip().splitlines()[-1].endswith("shards gres.conf gives each GPU, or set launch.gpus: 1")
    study.site["shards_per_gpu"] = 2 * SHARDS
    status, said = study.train()
    assert status == 1
    last_line = said.strip().splitlines()[-1]
    assert (
        last_line
        == f"error: site.yaml: shards_per_gpu: {2 * SHARDS}, but each GPU of partition gpu has {SHARDS} shards; "
        + ("write this number")
    )
    assert {job.id for job in cluster.jobs()} == before
    study.site["shards_per_gpu"] = SHARDS
    status, said = study.run("--dry-run", *study.targets())
    assert status == 0, said
    assert "site.yaml: Slurm takes these 2 jobs: 2 train" in said
    assert "; GPUs: 0.5, nodes: 1" in said


@pytest.mark.slow
def test_jobs_of_a_study_have_their_shards(study: ClusterStudy, cluster: Cluster):
    """There is no GPU here: the runs fail once they have begun."""
    study.config["launch"] = {"gpus": 0.5}
    study.site["shards_per_gpu"] = SHARDS
    known = {job.id for job in cluster.jobs()}
    study.start(*study.targets(), "--retries", "0")
    status = study.started[-1].wait(300)
    said = study.told()
    assert status == 1, said
    trained = [job.id for job in cluster.jobs() if job.id not in known and ".train." in job.name]
    assert len(trained) >= 2, said
    asked_for = json.loads(cluster.run("squeue", "--states=all", "--json"))["jobs"]
    by_id = {str(job["job_id"]): job["tres_per_node"] for job in asked_for}
    assert {by_id[job] for job in trained} == {f"gres:shard:{SHARDS // 2}"}
    assert "launch.gpus: this machine shows no GPU" in study.log_of("one")
