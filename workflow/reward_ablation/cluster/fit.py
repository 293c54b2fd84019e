"""Whether a request fits the cluster, in words that say what to change in the site file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reward_ablation.cluster.command import SlurmError, ask
from reward_ablation.cluster.partitions import Node, Partition
from reward_ablation.cluster.request import Request, arguments
from reward_ablation.cluster.submission import may_come_later


def within_limits(request: Request, cluster: Mapping[str, Partition]) -> Request:
    """The request with no more time and memory than its partition ever gives.

    A later attempt asks for more than the first one, which was checked; it must not be refused for that.
    """
    partition = _partition(request, cluster)
    if partition is None:
        return request
    minutes = min(request.minutes, partition.max_minutes or request.minutes)
    most = max((node.mem_mb for node in partition.nodes), default=request.mem_mb)
    return replace(request, minutes=minutes, mem_mb=min(request.mem_mb, most))


def refusal(request: Request, gpus_by: str, cluster: Mapping[str, Partition]) -> str | None:
    """Why Slurm would not run such a job ever; None where it would.

    Slurm itself is asked, by `sbatch --test-only`: it knows accounts, qualities of service and what else a site has
    set up. Where it refuses, the partition's limits tell which value of the site file it means.

    Raises
    ------
    SlurmError
        Slurm cannot say now: no answer, or the limit on the number of jobs is reached.
    """
    told = misfit(request, cluster)
    if told:
        return told
    try:
        ask("sbatch", "--test-only", *arguments(request, gpus_by), "--wrap=true")
    except SlurmError as error:
        if may_come_later(str(error)):
            raise
        partition = _partition(request, cluster)
        if "node configuration is not available" in str(error) and not all(node.up for node in _nodes_of(partition)):
            return None  # of nodes that are down now, which `sbatch` itself would wait for
        return f"{request.kind}: Slurm refuses such a job: {error} ({' '.join(arguments(request, gpus_by))})"
    return None


def misfit(request: Request, cluster: Mapping[str, Partition]) -> str | None:
    """Why no node of its partition can run a request; None where one can."""
    kind = request.kind
    named = request.partition.split(",") if request.partition else []
    for name in named:
        if name not in cluster:
            return f"{kind}: no partition '{name}' on this cluster; there are: {', '.join(sorted(cluster))}"
    if len(named) > 1:
        return None  # the first of several that can: Slurm knows
    partition = _partition(request, cluster)
    if partition is None:
        return f"{kind}: partition: this cluster has no default one; name one of: {', '.join(sorted(cluster))}"
    where = f"partition {partition.name}"
    if not partition.up:
        return f"{kind}: {where} is down; name another, or wait: `sinfo` shows their states"
    if partition.max_minutes is not None and request.minutes > partition.max_minutes:
        return (
            f"{kind}: {_hours(request.minutes)} are more than {where} allows ({_hours(partition.max_minutes)}); lower "
            "hours: training that is not done by then goes on in the next job"
        )
    if partition.max_nodes is not None and request.nodes > partition.max_nodes:
        return f"{kind}: {request.nodes} nodes are more than {where} gives one job ({partition.max_nodes})"
    if len(partition.nodes) < request.nodes:
        return f"{kind}: {request.nodes} nodes; {where} has {len(partition.nodes)}"
    limits = {
        "cpus": (request.cpus, [node.cpus for node in partition.nodes], "CPUs"),
        "mem_gb": (request.mem_mb, [node.mem_mb for node in partition.nodes], "MB of memory"),
    }
    for key, (asked, there, what) in limits.items():
        if sum(has >= asked for has in there) < request.nodes:
            return f"{kind}: {key}: {_nodes(request)} of {where} with {asked} {what}; most there: {max(there)}"
    if request.gpus_per_node:
        of_type = [_gpus(node.gpus, request.gpu_type) for node in partition.nodes]
        if sum(has >= request.gpus_per_node for has in of_type) < request.nodes:
            what = f"{request.gpus_per_node} GPUs" + (f" of type {request.gpu_type}" if request.gpu_type else "")
            types = sorted({name or "without a type" for node in partition.nodes for name in node.gpus})
            most = max(of_type)
            told = f"at most {most} on a node" if most else f"GPUs there are: {', '.join(types) or 'none'}"
            return f"{kind}: {_nodes(request)} of {where} with {what}; {told}"
    return None


def _partition(request: Request, cluster: Mapping[str, Partition]) -> Partition | None:
    if request.partition:
        return cluster.get(request.partition)
    return next((partition for partition in cluster.values() if partition.default), None)


def _nodes_of(partition: Partition | None) -> list[Node]:
    return partition.nodes if partition else []


def _gpus(gpus: Mapping[str, int], kind: str | None) -> int:
    return sum(gpus.values()) if kind is None else gpus.get(kind, 0)


def _nodes(request: Request) -> str:
    return "no node" if request.nodes == 1 else f"not {request.nodes} nodes"


def _hours(minutes: int) -> str:
    return f"{minutes / 60:g} hours"
