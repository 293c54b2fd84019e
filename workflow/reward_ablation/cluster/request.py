"""What a Slurm job asks for, and which jobs of Snakemake it does: by the study, the arm and the site file.

`preflight` checks the requests, and the executor plugin `snakemake_executor_plugin_slurm_study` submits them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reward_ablation.cluster.options import sbatch_options, words_of
from reward_ablation.cluster.site import Site
from reward_ablation.system.errors import StudyError

#: Rules whose jobs train. Their requests follow the section `train` of the site file, those of all other rules the
#: section `evaluate`. An attempt at training goes on where the last attempt stopped.
TRAINING = ("sft", "train")

#: With `bundle: run` in the site file, a run's evaluation follows its training in the same Slurm job: the rule whose
#: job begins such a bundle, the rule whose job may follow, and the bundle's name in messages.
FIRST, THEN, BUNDLED = "train", "evaluate", "bundle: run"


@dataclass(frozen=True)
class Request:
    """A job's request, by Slurm's names."""

    kind: str  # section of the site file, train or evaluate, for messages; several for a bundle
    account: str | None
    partition: str | None
    qos: str | None
    constraint: str | None
    nodes: int
    cpus: int  # on each node
    mem_mb: int  # on each node
    minutes: int  # time limit
    gpus: int  # on all nodes together
    gpu_type: str | None
    gres: str | None = None  # generic resources other than GPUs
    more: tuple[str, ...] = ()  # the user's other options of sbatch, as words

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node; the config is refused unless its nodes divide its GPUs."""
        return self.gpus // self.nodes


def bundles(jobs: Iterable[Any], site: Site, followers: Callable[[Any], list[Any]]) -> list[list[Any]]:
    """Jobs of Snakemake by Slurm job, each in the order of its work; `followers` gives the jobs that wait for a job."""
    jobs = list(jobs)
    if site.bundle is None:
        return [[job] for job in jobs]
    # An evaluation that needs more GPUs than its training has a Slurm job of its own.
    by_training = [
        [job, *(then for then in followers(job) if then.rule.name == THEN and _gpus(then) <= _gpus(job))]
        for job in jobs
        if job.rule.name == FIRST
    ]
    bundled = {id(job) for bundle in by_training for job in bundle}
    return [*by_training, *([job] for job in jobs if id(job) not in bundled)]


def _gpus(job: Any) -> int:
    return job.resources.get("gpu") or 0


def request_of(parts: Sequence[Any], site: Site, least_memory: Callable[[Any], int] = lambda job: 0) -> Request:
    """The request of a Slurm job that does these jobs of Snakemake one after the other.

    CPUs and memory are the largest of all jobs, and the times are summed. All else but the kind is that of the first
    job. `least_memory` gives the MB that a job needs at least: more than its last attempt had, if memory ran out.
    """
    requests = [_request_of_one(job, site, least_memory(job)) for job in parts]
    if len(requests) == 1:
        return requests[0]
    return replace(
        requests[0],
        kind=f"{' + '.join(dict.fromkeys(request.kind for request in requests))} ({BUNDLED})",
        cpus=max(request.cpus for request in requests),
        mem_mb=max(request.mem_mb for request in requests),
        minutes=sum(request.minutes for request in requests),
    )


def _request_of_one(job: Any, site: Site, least_memory: int) -> Request:
    """The request of a job: its resources, by Snakemake's names, win over the site file."""
    # The n-th attempt of an evaluation gets n times the hours, because one model's answers to one set may take longer
    # than the first limit. Training goes on at any step, so its hours stay: more may exceed the limit of a quality of
    # service, and then the job would wait for ever.
    kind, hours_times = ("train", 1) if job.rule.name in TRAINING else ("evaluate", job.attempt)
    section = site.train if kind == "train" else site.evaluate

    def first(name: str, *others: Any) -> Any:
        """A resource of the job, or else the first of `others` with a value. Snakemake's 0 means no value."""
        return next((value for value in (job.resources.get(name), *others) if value not in (None, "", 0)), None)

    def number(name: str, *others: int) -> int:
        value = first(name, *others)
        if not isinstance(value, int):
            raise ValueError(f"{name}: {value!r} is not a whole number")
        return value

    def text(name: str, *others: str | None) -> str | None:
        value = first(name, *others)
        if value is not None and "\0" in str(value):  # a word of a command line cannot have one
            raise ValueError(f"{name}: {value!r} has a NUL character; remove that character")
        return None if value is None else str(value)

    try:
        of_site = sbatch_options(site.sbatch, site.site_options)
        of_job = sbatch_options(text("slurm_extra"), site.site_options)
        # The narrower wins: the job's own, then its kind's, then the cluster's.
        constraints = (of_job.pop("constraint", None), section.constraint, of_site.pop("constraint", None))
        return Request(
            kind=kind,
            account=text("slurm_account", site.account),
            partition=text("slurm_partition", section.partition, site.partition),
            qos=text("qos", section.qos, site.qos),
            constraint=text("constraint", *constraints),
            nodes=number("nodes", 1),
            cpus=number("cpus_per_task", max(job.threads, section.cpus)),
            mem_mb=max(number("mem_mb", math.ceil(section.mem_gb * 1000)), least_memory),
            minutes=number("runtime", math.ceil(section.hours * 60)) * hours_times,
            gpus=_gpus(job),
            gpu_type=text("gpu_model", section.gpu_type, site.gpu_type),
            gres=of_job.pop("gres", of_site.pop("gres", None)),
            more=tuple(words_of({**of_site, **of_job})),
        )
    except ValueError as error:
        raise StudyError(f"resources of a {kind} job: {error}") from None


def arguments(request: Request, gpus_by: str) -> list[str]:
    """Options of `sbatch` for a request; `gpus_by` is "gpus" or "gres", as in the site file."""
    options = {
        "account": request.account,
        "partition": request.partition,
        "qos": request.qos,
        "constraint": request.constraint,
        "nodes": request.nodes,  # without this Slurm may spread a job's GPUs over nodes
        "ntasks": request.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": request.cpus,
        "mem": request.mem_mb,
        "time": request.minutes,
    }
    of_type = f"{request.gpu_type}:" if request.gpu_type else ""
    gres = [request.gres] if request.gres else []
    if request.gpus and gpus_by == "gres":
        gres.insert(0, f"gpu:{of_type}{request.gpus_per_node}")
    elif request.gpus and request.nodes == 1:
        options["gpus"] = f"{of_type}{request.gpus}"
    elif request.gpus:  # with --gpus=4 Slurm may give 3 on one node and 1 on another
        options["gpus-per-node"] = f"{of_type}{request.gpus_per_node}"
    options["gres"] = ",".join(gres) or None
    return [*words_of({name: str(value) for name, value in options.items() if value is not None}), *request.more]
