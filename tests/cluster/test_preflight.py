from dataclasses import replace
from types import SimpleNamespace

import pytest

from reward_ablation.cluster.bundle import bundles, request_of_parts
from reward_ablation.cluster.preflight import check_dry_run, offer, refusal, requests_of, within_limits
from reward_ablation.cluster.request import Request
from reward_ablation.cluster.site import Site
from reward_ablation.cluster.slurm import Node, Partition
from reward_ablation.system.errors import StudyError

NODES = [Node("g1", 32, 128_000, {"h200": 4}), Node("g2", 64, 256_000, {"a100": 8})]
CLUSTER = {
    "gpu": Partition("gpu", default=True, up=True, max_minutes=1440, nodes=NODES),
    "old": Partition("old", default=False, up=False, max_minutes=None, nodes=NODES),
    "cpu": Partition("cpu", default=False, up=True, max_minutes=None, nodes=[Node("c1", 8, 16_000, {})]),
}
REQUEST = Request("train", None, "gpu", None, None, 1, 8, 64_000, 1440, 1, None)

SITE = Site.model_validate({"train": {"hours": 1, "mem_gb": 1}, "evaluate": {"hours": 1, "mem_gb": 1}})


def job(rule: str, **resources):
    return SimpleNamespace(rule=SimpleNamespace(name=rule), resources=resources, threads=1, attempt=1)


@pytest.fixture
def site_file(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text("train: {hours: 1, mem_gb: 1}\nevaluate: {hours: 1, mem_gb: 1}\n")
    return path


def test_jobs_that_ask_for_the_same_are_one_request():
    jobs = [job("train", gpu=1), job("train", gpu=2), job("evaluate", gpu=1), job("train", gpu=1)]
    requests = requests_of([[each] for each in jobs], SITE)
    assert [(request.kind, number) for request, number in requests.items()] == [
        ("evaluate", 1),
        ("train", 2),
        ("train", 1),
    ]


@pytest.mark.parametrize(
    ("train", "evaluate", "shared"),
    [
        ({"gpu": 1}, {"gpu": 1}, True),
        ({"gpu": 4}, {"gpu": 1}, True),
        ({"gpu": 0}, {"gpu": 0}, True),
        ({"gpu": 0}, {"gpu": 1}, False),
    ],
)
def test_an_evaluation_shares_the_job_of_a_training_that_has_as_many_gpus(train, evaluate, shared):
    site = SITE.model_copy(update={"bundle": "run"})
    first, then = job("train", **train), job("evaluate", **evaluate)
    made = bundles([first, then], site, lambda job: [then] if job is first else [])
    assert made == ([[first, then]] if shared else [[first], [then]])


def test_a_training_with_its_evaluation_asks_for_the_time_of_both():
    site = Site.model_validate(
        {
            "bundle": "run",
            "train": {"hours": 20, "mem_gb": 8, "cpus": 2},
            "evaluate": {"hours": 4.5, "mem_gb": 16, "cpus": 8, "partition": "cpu"},
        }
    )
    train, evaluate = job("train", gpu=2, slurm_partition="gpu"), job("evaluate", gpu=1)
    request = request_of_parts(site, [train, evaluate], lambda job: 32_000 if job is evaluate else 0)
    assert (request.minutes, request.cpus, request.mem_mb, request.gpus) == (1470, 8, 32_000, 2)
    assert request.partition == "gpu"
    told = refusal(request, "gpus", CLUSTER)
    assert told.startswith("train + evaluate (bundle: run): asks for 24.5 hours; partition gpu gives a job at most 24")
    assert told.endswith("; lower `hours` of train or evaluate, or leave `bundle` empty")


@pytest.mark.parametrize(
    ("bundle", "slurm_jobs"),
    [
        (None, [["train"], ["evaluate"], ["evaluate_base"]]),
        ("run", [["train", "evaluate"], ["evaluate_base"]]),
    ],
)
def test_which_jobs_are_one_slurm_job(bundle, slurm_jobs):
    site = SITE.model_copy(update={"bundle": bundle})
    train, evaluate, base, figure = (job(rule) for rule in ("train", "evaluate", "evaluate_base", "figure"))
    after = {id(train): [evaluate, figure]}
    found = bundles([train, evaluate, base], site, lambda job: after.get(id(job), []))
    assert [[each.rule.name for each in parts] for parts in found] == slurm_jobs


@pytest.mark.parametrize(
    ("partition", "offered"),
    [
        (
            "gpu",
            "partition gpu gives a job at most 24 hours (training that is not done by then goes on in the next job) on "
            "2 nodes; a node has at most 64 CPUs, 256000 MB of memory, 8 GPUs of type a100, 4 GPUs of type h200",
        ),
        (None, "partition gpu gives a job"),
        ("cpu", "at most any time"),
        ("cpu", "on 1 nodes; a node has at most 8 CPUs, 16000 MB of memory, no GPU"),
        ("gpuu", "partitions here: cpu, gpu, old"),
        ("cpu,gpu", "partitions here: cpu, gpu, old"),
    ],
)
def test_what_a_refusal_says_that_a_job_can_have(partition, offered):
    assert offered in offer(replace(REQUEST, partition=partition), CLUSTER)


def test_a_partition_that_is_down_is_refused_without_asking_slurm(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert refusal(replace(REQUEST, partition="old"), "gpus", CLUSTER) == (
        "train: partition old is down; name another, or wait: `sinfo` shows their states"
    )


def test_a_time_that_the_partition_never_gives_is_refused_without_asking_slurm(monkeypatch):
    """By default Slurm accepts such a job and never runs it."""
    monkeypatch.setenv("PATH", "")
    refused = refusal(replace(REQUEST, minutes=2880), "gpus", CLUSTER)
    assert refused.startswith("train: asks for 48 hours; partition gpu gives a job at most 24 hours")


def test_a_partition_that_gives_fewer_nodes_than_it_has_says_so():
    cluster = {"gpu": replace(CLUSTER["gpu"], max_nodes=1)}
    assert "on 1 nodes" in offer(REQUEST, cluster)


def test_a_later_attempt_asks_for_no_more_than_there_is():
    request = within_limits(replace(REQUEST, minutes=4320, mem_mb=512_000), CLUSTER)
    assert (request.minutes, request.mem_mb) == (1440, 256_000)
    assert within_limits(REQUEST, CLUSTER) == REQUEST


def test_a_dry_run_without_slurm_says_what_is_not_checked(monkeypatch, site_file):
    monkeypatch.setenv("PATH", "")
    assert check_dry_run([[job("train")]], SITE, site_file) == (
        f"{site_file}: not checked whether Slurm takes these jobs: sinfo: no such command; is Slurm installed on this "
        "machine?"
    )


def test_a_dry_run_without_slurm_checks_what_needs_none(monkeypatch, site_file):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StudyError, match="cpus_per_task: 'many' is not a whole number"):
        check_dry_run([[job("train", cpus_per_task="many")]], SITE, site_file)
