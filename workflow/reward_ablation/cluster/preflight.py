"""The jobs that a start would submit, held against the site file and the cluster before anything is submitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reward_ablation.cluster.command import SlurmError, ask
from reward_ablation.cluster.partitions import Node, Partition, partitions
from reward_ablation.cluster.request import Request, arguments, request_of
from reward_ablation.cluster.site import Site, read_site
from reward_ablation.cluster.submission import may_come_later
from reward_ablation.system.errors import StudyError


def check_jobs(jobs: Iterable[Any], site: Site, site_file: Path, cluster: Mapping[str, Partition]) -> str | None:
    """Refuse jobs of Snakemake that Slurm would never run, by a StudyError.

    Returns
    -------
    str or None
        Why Slurm cannot judge all of the jobs now, such as the limit on the number of jobs that is reached.
    """
    unknown = None
    for request in requests_of(jobs, site):
        try:
            refused = refusal(request, site.gpus_by, cluster)
        except SlurmError as error:
            unknown = str(error)
        else:
            if refused:
                raise StudyError(f"{site_file}: {refused}")
    return unknown


def requests_of(jobs: Iterable[Any], site: Site) -> list[Request]:
    """Different requests of jobs, those of one kind one after the other; StudyError for an impossible resource."""
    requests = (request_of(site, job.rule.name, job.resources, job.threads, job.attempt) for job in jobs)
    return sorted(dict.fromkeys(requests), key=lambda request: request.kind)


def check_dry_run(jobs: list[Any], site_file: Path) -> str:
    """Check jobs that a dry run lists as a start would; the line for the user, also where Slurm does not answer."""
    site = read_site(site_file)
    requests = requests_of(jobs, site)
    try:
        unknown = check_jobs(jobs, site, site_file, partitions())
    except SlurmError as error:
        unknown = str(error)
    if unknown:
        return f"{site_file}: not checked whether Slurm takes these jobs: {unknown}"
    kinds = dict.fromkeys(request.kind for request in requests)
    return f"{site_file}: Slurm takes these jobs ({', '.join(kinds)})"


def within_limits(request: Request, cluster: Mapping[str, Partition]) -> Request:
    """The request with no more time and memory than its partition ever gives.

    A later attempt asks for more than the first one, which was checked, and must not be refused for that.
    """
    partition = _partition(request, cluster)
    if partition is None:
        return request
    minutes = min(request.minutes, partition.max_minutes or request.minutes)
    most = max((node.mem_mb for node in partition.nodes), default=request.mem_mb)
    return replace(request, minutes=minutes, mem_mb=min(request.mem_mb, most))


def refusal(request: Request, gpus_by: str, cluster: Mapping[str, Partition]) -> str | None:
    """Why Slurm would never run such a job; None where it would.

    `sbatch --test-only` says so; the message adds what the partition offers. A partition that is down and a time
    beyond the partition's limit are refused here, for Slurm may take such jobs.

    Raises
    ------
    SlurmError
        Slurm cannot judge the job now: no answer, or the limit on the number of jobs is reached.
    """
    partition = _partition(request, cluster)
    if partition and not partition.up:
        return f"{request.kind}: partition {partition.name} is down; name another, or wait: `sinfo` shows their states"
    if partition and partition.max_minutes is not None and request.minutes > partition.max_minutes:
        hours = f"{request.minutes / 60:g} hours"  # by default Slurm takes such a job, and never runs it
        return f"{request.kind}: asks for {hours}; {offer(request, cluster)}"
    options = arguments(request, gpus_by)
    try:
        ask("sbatch", "--test-only", *options, "--wrap=true")
    except SlurmError as error:
        if may_come_later(str(error)):
            raise
        if "node configuration is not available" in str(error) and _waits_for_nodes(request, partition):
            return None
        return f"{request.kind}: Slurm refuses such a job: {error}; {offer(request, cluster)} ({' '.join(options)})"
    return None


def offer(request: Request, cluster: Mapping[str, Partition]) -> str:
    """What a job can have at most in the request's partition; where that is unknown, the names of all partitions."""
    partition = _partition(request, cluster)
    if partition is None or not partition.nodes:
        return f"partitions here: {', '.join(sorted(cluster))}"
    nodes = partition.nodes
    largest = f"{max(node.cpus for node in nodes)} CPUs, {max(node.mem_mb for node in nodes)} MB of memory"
    gpus = {kind: max(node.gpus.get(kind, 0) for node in nodes) for node in nodes for kind in node.gpus}
    kinds = [f"{number} GPUs" + (f" of type {kind}" if kind else "") for kind, number in sorted(gpus.items())]
    most = ", ".join([largest, *(kinds or ["no GPU"])])
    hours = "any time" if partition.max_minutes is None else f"{partition.max_minutes / 60:g} hours"
    return (
        f"partition {partition.name} gives a job at most {hours} (training that is not done by then goes on in the "
        f"next job) on {_most_nodes(partition)} nodes, a node having at most {most}"
    )


def _waits_for_nodes(request: Request, partition: Partition | None) -> bool:
    """Whether enough nodes can run the request once those are up that are down now; `sbatch` takes such a job."""
    if partition is None or all(node.up for node in partition.nodes) or request.nodes > _most_nodes(partition):
        return False
    return sum(_can_run(node, request) for node in partition.nodes) >= request.nodes


def _most_nodes(partition: Partition) -> int:
    return min(len(partition.nodes), partition.max_nodes or len(partition.nodes))


def _can_run(node: Node, request: Request) -> bool:
    gpus = sum(node.gpus.values()) if request.gpu_type is None else node.gpus.get(request.gpu_type, 0)
    return node.cpus >= request.cpus and node.mem_mb >= request.mem_mb and gpus >= request.gpus_per_node


def _partition(request: Request, cluster: Mapping[str, Partition]) -> Partition | None:
    """The request's partition, or the default one; None where there is none, or the request names several."""
    if request.partition:
        return cluster.get(request.partition)
    return next((partition for partition in cluster.values() if partition.default), None)
