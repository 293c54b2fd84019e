"""What a job asks Slurm for: the resources of the study and the arm, and by default those of the site file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from reward_ablation.cluster.options import sbatch_options, words_of
from reward_ablation.cluster.site import Site
from reward_ablation.system.errors import StudyError

#: Rules whose jobs train. Their requests follow the section `train` of the site file, and an attempt goes on where the
#: last attempt stopped.
TRAINING = ("sft", "train")


@dataclass(frozen=True)
class Request:
    """A job's request, by Slurm's names."""

    kind: str  # section of the site file: train or evaluate; several for a bundle
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
    more: tuple[str, ...] = ()  # more options of sbatch, as words

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node."""
        return self.gpus // self.nodes


def request_of(
    site: Site, rule: str, resources: Mapping[str, Any], threads: int, attempt: int = 1, least_memory: int = 0
) -> Request:
    """The request of a job of a rule.

    The job's `resources`, by Snakemake's names, win over the site file. `threads` is the least number of CPUs.
    `least_memory` is in megabytes, from an attempt that Slurm ended because of its memory. The n-th `attempt` of an
    evaluation gets n times the hours, because one model's answers to one set may take longer than the first limit.
    Training goes on at any step, so its hours stay.

    Raises StudyError if a resource of the job has the wrong type, or if one of its options of sbatch is not allowed.
    """
    kind = "train" if rule in TRAINING else "evaluate"
    ask = site.train if kind == "train" else site.evaluate
    number, text = partial(_number, resources), partial(_text, resources)
    try:
        of_site = sbatch_options(site.sbatch, site.site_options)
        of_job = sbatch_options(text("slurm_extra"), site.site_options)
        return Request(
            kind=kind,
            account=text("slurm_account", site.account),
            partition=text("slurm_partition", ask.partition, site.partition),
            qos=text("qos", ask.qos, site.qos),
            constraint=text(
                "constraint", of_job.pop("constraint", None), ask.constraint, of_site.pop("constraint", None)
            ),
            nodes=number("nodes", 1),
            cpus=number("cpus_per_task", max(threads, ask.cpus)),
            mem_mb=max(number("mem_mb", math.ceil(ask.mem_gb * 1000)), least_memory),
            minutes=number("runtime", math.ceil(ask.hours * 60)) * (1 if kind == "train" else attempt),
            gpus=resources.get("gpu") or 0,
            gpu_type=text("gpu_model", ask.gpu_type, site.gpu_type),
            gres=of_job.pop("gres", of_site.pop("gres", None)),
            more=tuple(words_of({**of_site, **of_job})),
        )
    except ValueError as error:
        raise StudyError(f"resources of a {kind} job: {error}") from None


def _first(resources: Mapping[str, Any], name: str, *others: Any) -> Any:
    """A resource of the job, or else the first of `others` with a value. Snakemake's 0 means no value."""
    return next((value for value in (resources.get(name), *others) if value not in (None, "", 0)), None)


def _number(resources: Mapping[str, Any], name: str, *others: int) -> int:
    value = _first(resources, name, *others)
    if not isinstance(value, int):
        raise ValueError(f"{name}: {value!r} is not a whole number")
    return value


def _text(resources: Mapping[str, Any], name: str, *others: str | None) -> str | None:
    value = _first(resources, name, *others)
    if value is not None and "\0" in str(value):  # a word of a command line cannot have one
        raise ValueError(f"{name}: {value!r} has a NUL character; remove that character")
    return None if value is None else str(value)


def arguments(request: Request, gpus_by: str) -> list[str]:
    """Options of `sbatch` for a request; `gpus_by` as in the site file."""
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
    gres = []
    of_type = f"{request.gpu_type}:" if request.gpu_type else ""
    if request.gpus:
        if gpus_by == "gpus" and request.nodes == 1:
            options["gpus"] = f"{of_type}{request.gpus}"
        elif gpus_by == "gpus":  # with --gpus=4 Slurm may give 3 on one node and 1 on another
            options["gpus-per-node"] = f"{of_type}{request.gpus_per_node}"
        else:
            gres.append(f"gpu:{of_type}{request.gpus_per_node}")
    if request.gres:
        gres.append(request.gres)
    options["gres"] = ",".join(gres) or None
    return [*words_of({name: str(value) for name, value in options.items() if value is not None}), *request.more]
