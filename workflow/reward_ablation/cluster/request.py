"""What a job asks Slurm for: the study's and the arm's resources, and the site's where these say nothing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reward_ablation.cluster.site import Site, check_options
from reward_ablation.study.errors import StudyError

#: Rules whose jobs train: they follow the site's section train, and go on where an earlier attempt stopped.
TRAINING = ("sft", "train")


@dataclass(frozen=True)
class Request:
    """A job's request, in Slurm's words.

    Attributes
    ----------
    kind : str
        Section of the site file that it follows: train or evaluate.
    mem_mb, cpus : int
        On each node.
    minutes : int
        Time limit.
    gpus : int
        On all nodes together.
    """

    kind: str
    account: str | None
    partition: str | None
    qos: str | None
    constraint: str | None
    nodes: int
    cpus: int
    mem_mb: int
    minutes: int
    gpus: int
    gpu_type: str | None
    more: str

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node."""
        return self.gpus // self.nodes


def request_of(
    site: Site, rule: str, resources: Mapping[str, Any], threads: int, attempt: int = 1, memory_factor: int = 1
) -> Request:
    """The request of a job of a rule.

    Parameters
    ----------
    resources : mapping
        The job's, by Snakemake's names: what stands here wins over the site file.
    threads : int
        Of the job: it gets no less.
    attempt : int
        The n-th of an evaluation gets n times its hours: one that hit its limit began anew. Training goes on.
    memory_factor : int
        More than 1 after attempts that Slurm ended for their memory.

    Raises
    ------
    StudyError
        The job's own options of sbatch are not to be set.
    """
    kind = "train" if rule in TRAINING else "evaluate"
    try:
        check_options(resources.get("slurm_extra"))
    except ValueError as error:
        raise StudyError(f"resources.slurm_extra of a {kind} job: {error}") from None
    ask = site.train if kind == "train" else site.evaluate

    def first(name: str, *others: Any) -> Any:
        return next((value for value in (resources.get(name), *others) if value not in (None, "", 0)), None)

    return Request(
        kind=kind,
        account=first("slurm_account", site.account),
        partition=first("slurm_partition", ask.partition, site.partition),
        qos=first("qos", ask.qos, site.qos),
        constraint=first("constraint", ask.constraint),
        nodes=first("nodes", 1),
        cpus=first("cpus_per_task", max(threads, ask.cpus)),
        mem_mb=first("mem_mb", math.ceil(ask.mem_gb * 1000)) * memory_factor,
        minutes=first("runtime", math.ceil(ask.hours * 60)) * (1 if kind == "train" else attempt),
        gpus=resources.get("gpu") or 0,
        gpu_type=first("gpu_model", ask.gpu_type, site.gpu_type),
        more=" ".join(part for part in (site.sbatch, resources.get("slurm_extra")) if part),
    )


def arguments(request: Request, gpus_by: str) -> list[str]:
    """Options of `sbatch` for a request.

    Parameters
    ----------
    gpus_by : str
        "gpus" or "gres".
    """
    options = {
        "account": request.account,
        "partition": request.partition,
        "qos": request.qos,
        "constraint": request.constraint,
        "nodes": request.nodes,  # without it Slurm may split a job's GPUs over nodes
        "ntasks": request.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": request.cpus,
        "mem": request.mem_mb,
        "time": request.minutes,
    }
    if request.gpus:
        of_type = f"{request.gpu_type}:" if request.gpu_type else ""
        if gpus_by == "gpus" and request.nodes == 1:
            options["gpus"] = f"{of_type}{request.gpus}"
        elif gpus_by == "gpus":  # --gpus=4 may be 3 and 1
            options["gpus-per-node"] = f"{of_type}{request.gpus_per_node}"
        else:
            options["gres"] = f"gpu:{of_type}{request.gpus_per_node}"
    return [f"--{name}={value}" for name, value in options.items() if value is not None] + shlex.split(request.more)
