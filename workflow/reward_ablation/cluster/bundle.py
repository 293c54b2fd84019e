"""Jobs of Snakemake that are one Slurm job: the training of a run and, where the site file says so, what follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from reward_ablation.cluster.request import Request, request_of
from reward_ablation.cluster.site import Site

#: The rule whose job begins a bundle, and the rule whose job may follow in the same Slurm job.
FIRST, THEN = "train", "evaluate"

#: Words for a bundle, in a message.
BUNDLED = "bundle: run"


def bundles(jobs: Iterable[Any], site: Site, followers: Callable[[Any], list[Any]]) -> list[list[Any]]:
    """The jobs of each Slurm job, in their order.

    Parameters
    ----------
    followers : callable
        Gives the jobs that depend on a job and are to run.
    """
    jobs = list(jobs)
    if site.bundle is None:
        return [[job] for job in jobs]
    first = [
        [job, *(then for then in followers(job) if then.rule.name == THEN)] for job in jobs if job.rule.name == FIRST
    ]
    inside = {id(job) for bundle in first for job in bundle}
    return [*first, *([job] for job in jobs if id(job) not in inside)]


def request_of_parts(site: Site, parts: Sequence[Any], memory_factor: Callable[[Any], int] = lambda job: 1) -> Request:
    """What a Slurm job asks for that does these jobs of Snakemake, one after the other.

    The nodes and the GPUs are those of the first part. The time is the sum of the parts' times.
    """
    requests = [
        request_of(site, job.rule.name, job.resources, job.threads, job.attempt, memory_factor(job)) for job in parts
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
