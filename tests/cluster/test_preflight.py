"""Checks before anything is submitted: whether the cluster can run the jobs, and whether the disk has enough room."""

import json
import shutil
from dataclasses import replace

import pytest

from reward_ablation.cluster.preflight import bytes_to_come, no_room, offer, refusal, within_limits
from reward_ablation.cluster.request import Request
from reward_ablation.cluster.slurm import Node, Partition
from reward_ablation.spec.run import ArmSpec
from specs import arm_spec

NODES = [Node("g1", 32, 128_000, {"h200": 4}), Node("g2", 64, 256_000, {"a100": 8})]
CLUSTER = {
    "gpu": Partition("gpu", default=True, up=True, max_minutes=1440, nodes=NODES),
    "old": Partition("old", default=False, up=False, max_minutes=None, nodes=NODES),
    "cpu": Partition("cpu", default=False, up=True, max_minutes=None, nodes=[Node("c1", 8, 16_000, {})]),
    "short": Partition("short", default=False, up=True, max_minutes=60, nodes=NODES[:1]),
    "few": Partition("few", default=False, up=True, max_minutes=None, nodes=NODES, max_nodes=1),
}
REQUEST = Request("train", None, "gpu", None, None, 1, 8, 64_000, 1440, 1, None)


@pytest.mark.parametrize(
    ("partition", "offered"),
    [
        (
            None,
            "partition gpu gives a job at most 24 hours (training that is not done by then goes on in the next job) on "
            "2 nodes; a node has at most 64 CPUs, 256000 MB of memory, 8 GPUs of type a100, 4 GPUs of type h200",
        ),
        ("cpu", "at most 8 CPUs, 16000 MB of memory, no GPU"),
        ("few", "on 1 nodes"),  # gives fewer nodes than it has
        ("cpu,gpuu", "partitions here: cpu, few, gpu, old, short"),
        ("gpu,old,cpu", "partition gpu,old,cpu gives a job at most any time"),
        ("few,gpu", "on 2 nodes; a node has at most 64 CPUs, 256000 MB of memory, 8 GPUs of type a100, 4 GPUs"),
    ],
)
def test_what_a_refusal_says_that_a_job_can_have(partition, offered):
    assert offered in offer(replace(REQUEST, partition=partition), CLUSTER)


@pytest.mark.parametrize(
    ("changes", "begins", "ends"),
    [
        ({"partition": "old"}, "train: partition old is down; name another, or wait", "`sinfo` shows their states"),
        ({"minutes": 2880, "partition": "short,gpu"}, "train: asks for 48 hours; partition short,gpu gives", "h200"),
        (
            {"minutes": 1470, "kind": "train + evaluate (bundle: run)"},
            "train + evaluate (bundle: run): asks for 24.5 hours; partition gpu gives a job at most 24",
            "; lower `hours` of train or evaluate, or leave `bundle` empty",
        ),
    ],
)
def test_what_slurm_would_accept_and_never_run_is_refused_without_asking_slurm(monkeypatch, changes, begins, ends):
    monkeypatch.setenv("PATH", "")
    message = refusal(replace(REQUEST, **changes), "gpus", CLUSTER)
    assert message.startswith(begins)
    assert message.endswith(ends)


@pytest.mark.parametrize(
    ("changes", "minutes", "mem_mb"),
    [
        ({}, 1440, 256_000),
        ({"gpu_type": "h200"}, 1440, 128_000),  # the larger node has none of these
        ({"gpus": 2, "nodes": 2}, 1440, 128_000),
        ({"partition": "short,gpu"}, 1440, 256_000),
        ({"partition": "gpu,old"}, 4320, 256_000),
    ],
)
def test_a_later_attempt_asks_for_no_more_than_there_is(changes, minutes, mem_mb):
    asked = replace(REQUEST, **changes)
    request = within_limits(replace(asked, minutes=4320, mem_mb=512_000), CLUSTER)
    assert (request.minutes, request.mem_mb) == (minutes, mem_mb)
    assert within_limits(asked, CLUSTER) == asked


FULL = ArmSpec.read(arm_spec())
MODEL, CHECKPOINT = 4 * 1000, 12 * 1000  # bytes of 1,000 parameters, and of Adam's moments, too


@pytest.mark.parametrize(
    ("spec", "runs", "at_once", "expected"),
    [
        ({}, 5, 2, 5 * MODEL + 2 * 3 * CHECKPOINT),
        (
            {"training": {"model_init_kwargs": {"dtype": "bfloat16"}, "save_total_limit": 1}},
            *(1, 1, (MODEL + 2 * CHECKPOINT) / 2),
        ),
        # After steps 3, 6 and 9, and the final one.
        ({"training": {"max_steps": 10}, "keep_models": 3}, 1, 1, 4 * MODEL + 3 * CHECKPOINT),
        ({"lora": {"r": 16}}, 1, 1, 0.05 * (MODEL + 3 * CHECKPOINT)),
    ],
)
def test_bytes_that_runs_will_write(spec, runs, at_once, expected):
    assert bytes_to_come(1000, [ArmSpec.read(arm_spec(**spec))] * runs, at_once) == expected


def test_too_little_room_is_told_and_what_the_runs_have_written_counts_as_room(tmp_path):
    def told(parameters):
        (tmp_path / "model.json").write_text(json.dumps({"parameters": parameters}))
        return no_room(tmp_path, tmp_path, {"a-1/seed0": FULL}, at_once=1)

    assert no_room(tmp_path, tmp_path, {"a-1/seed0": FULL}, at_once=1) is None, "nothing is known of the model"
    assert told(1000) is None
    too_many = (shutil.disk_usage(tmp_path).free + (8 << 30)) // (4 + 3 * 12)  # 8 GiB too little
    assert "make room, lower save_total_limit, or train fewer at once (--jobs)" in told(too_many)
    work = tmp_path / "runs/a-1/seed0/.work/checkpoint-5"
    work.mkdir(parents=True)
    with (work / "model.safetensors").open("w") as file:
        file.truncate(16 << 30)  # sparse
    assert told(too_many) is None
