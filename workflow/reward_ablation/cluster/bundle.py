"""Which jobs of Snakemake share a Slurm job: with `bundle: run` in the site file, a run's training and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from reward_ablation.cluster.request import Request, request_of
from reward_ablation.cluster.site import Site

#: The rule whose job begins a bundle, and the rule whose job may follow in the same Slurm job.
FIRST, THEN = "train", "evaluate"

#: Name of a bundle in messages.
BUNDLED = "bundle: run"


def bundles(jobs: Iterable[Any], site: Site, followers: Callable[[Any], list[Any]]) -> list[list[Any]]:
    """Group jobs of Snakemake into Slurm jobs. Each inner list has the jobs of one Slurm job, in their order.

    An evaluation that needs more GPUs than the training before has a Slurm job of its own. `followers` returns the
    jobs that depend on a job and are about to run.
    """
    jobs = list(jobs)
    if site.bundle is None:
        return [[job] for job in jobs]
    first = [
        [job, *(then for then in followers(job) if then.rule.name == THEN and _gpus(then) <= _gpus(job))]
        for job in jobs
        if job.rule.name == FIRST
    ]
    bundled = {id(job) for bundle in first for job in bundle}
    return [*first, *([job] for job in jobs if id(job) not in bundled)]


def _gpus(job: Any) -> int:
    return job.resources.get("gpu") or 0


def request_of_parts(site: Site, parts: Sequence[Any], least_memory: Callable[[Any], int] = lambda job: 0) -> Request:
    """The request of a Slurm job that does these jobs of Snakemake one after the other.

    Nodes and GPUs are those of the first part. CPUs and memory are the largest of all parts, and the times are summed.
    """
    requests = [
        request_of(site, job.rule.name, job.resources, job.threads, job.attempt, least_memory(job)) for job in parts
    ]
    if len(requests) == 1:
        return requests[0]
    return replace(
        requests[0],
        kind=f"{' + '.join(dict.fromkeys(request.kind for request in requests))} ({BUNDLED})",
        cpus=max(request.cpus for request in requests),
        mem_mb=max(request.mem_mb for request in requests),
        minutes=sum(request.minutes for request in requests),
    )
