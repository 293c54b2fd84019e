"""The Slurm job that a process runs in, as its environment tells it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reward_ablation.cluster.job_times import start_of_job


def slurm_job(environment: Mapping[str, str], began: float) -> dict[str, Any] | None:
    """What Slurm gave to the job of this process, and how much of its time was gone; None outside of Slurm.

    Parameters
    ----------
    environment : mapping
        Of a batch step, or of a step that `srun` began.
    began : float
        When this process began, in seconds since 1970.

    Returns
    -------
    dict
        id, name, cluster, partition and nodes, as Slurm writes them; restarts; gpus and cpus of the whole job; start,
        in seconds since 1970; seconds_before, from then until the process began. What Slurm did not tell is None.
    """
    if "SLURM_JOB_ID" not in environment:
        return None
    start = start_of_job(environment)
    return {
        "id": environment["SLURM_JOB_ID"],
        "name": environment.get("SLURM_JOB_NAME"),
        "cluster": environment.get("SLURM_CLUSTER_NAME"),
        "partition": environment.get("SLURM_JOB_PARTITION"),
        "nodes": environment.get("SLURM_JOB_NODELIST"),
        "restarts": _number(environment.get("SLURM_RESTART_COUNT")) or 0,
        "gpus": _gpus(environment),
        "cpus": _cpus(environment.get("SLURM_JOB_CPUS_PER_NODE", "")),
        "start": start,
        # The controller's clock and the node's may differ.
        "seconds_before": None if start is None else round(max(0.0, began - start), 1),
    }


def _gpus(environment: Mapping[str, str]) -> int:
    """GPUs of the job: as asked for by --gpus, such as `h200:4`, else as many on each node as on this one."""
    if asked := re.findall(r"(?:^|[:,])(\d+)(?=,|$)", environment.get("SLURM_GPUS", "")):
        return sum(map(int, asked))
    nodes = _number(environment.get("SLURM_JOB_NUM_NODES")) or 1
    return nodes * (_number(environment.get("SLURM_GPUS_ON_NODE")) or 0)


def _cpus(per_node: str) -> int | None:
    """CPUs of the job, from a list such as `72(x2),36`."""
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", per_node)
    return sum(int(cpus) * int(nodes or 1) for cpus, nodes in groups) if groups else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
