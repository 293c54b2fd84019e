from dataclasses import replace

import pytest

from reward_ablation.cluster.fit import misfit, within_limits
from reward_ablation.cluster.partitions import Node, Partition
from reward_ablation.cluster.request import Request

NODES = [Node("g1", 32, 128_000, {"h200": 4}), Node("g2", 64, 256_000, {"a100": 8})]
CLUSTER = {
    "gpu": Partition("gpu", default=True, up=True, max_minutes=1440, max_nodes=None, nodes=NODES),
    "old": Partition("old", default=False, up=False, max_minutes=None, max_nodes=None, nodes=NODES),
    "one": Partition("one", default=False, up=True, max_minutes=None, max_nodes=1, nodes=NODES),
    "cpu": Partition("cpu", default=False, up=True, max_minutes=60, max_nodes=None, nodes=[Node("c1", 8, 16_000, {})]),
}
FITS = Request("train", None, "gpu", None, None, 1, 8, 64_000, 1440, 1, None)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"partition": None},
        {"gpus": 8},
        {"gpus": 4, "gpu_type": "h200"},
        {"nodes": 2, "gpus": 8},
        {"partition": "cpu", "gpus": 0, "minutes": 60, "mem_mb": 16_000},
    ],
)
def test_what_a_node_can_run_fits(change):
    assert misfit(replace(FITS, **change), CLUSTER) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"partition": "gpuu"}, "train: no partition 'gpuu' on this cluster; there are: cpu, gpu, old, one"),
        ({"partition": "old"}, "partition old is down"),
        ({"minutes": 2880}, "48 hours are more than partition gpu allows (24 hours); lower hours"),
        ({"partition": "one", "nodes": 2}, "2 nodes are more than partition one gives one job (1)"),
        ({"nodes": 3}, "3 nodes; partition gpu has 2"),
        ({"cpus": 65}, "cpus: no node of partition gpu with 65 CPUs; most there: 64"),
        ({"mem_mb": 300_000}, "mem_gb: no node of partition gpu with 300000 MB of memory; most there: 256000"),
        ({"nodes": 2, "mem_mb": 200_000}, "mem_gb: not 2 nodes of partition gpu with 200000 MB"),
        ({"gpus": 9}, "no node of partition gpu with 9 GPUs; at most 8 on a node"),
        ({"gpus": 5, "gpu_type": "h200"}, "no node of partition gpu with 5 GPUs of type h200; at most 4 on a node"),
        ({"gpu_type": "h100"}, "of type h100; GPUs there are: a100, h200"),
        (
            {"partition": "cpu", "minutes": 60, "mem_mb": 1000},
            "no node of partition cpu with 1 GPUs; GPUs there are: none",
        ),
        ({"nodes": 2, "gpus": 16}, "not 2 nodes of partition gpu with 8 GPUs"),
    ],
)
def test_what_no_node_can_run_is_told_with_what_to_change(change, told):
    assert told in (misfit(replace(FITS, **change), CLUSTER) or "")


def test_without_a_default_partition_one_must_be_named():
    assert "name one of: old" in (misfit(replace(FITS, partition=None), {"old": CLUSTER["old"]}) or "")


def test_a_later_attempt_asks_for_no_more_than_there_is():
    request = within_limits(replace(FITS, minutes=4320, mem_mb=512_000), CLUSTER)
    assert (request.minutes, request.mem_mb) == (1440, 256_000)
    assert within_limits(FITS, CLUSTER) == FITS
