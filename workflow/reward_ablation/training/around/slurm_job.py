"""What Slurm allocated to the job of a process, from the environment of the process.

`attempts` puts it into the record of each attempt that trains in a Slurm job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reward_ablation.cluster.script import PARTS_VARIABLE
from reward_ablation.cluster.slurm import start_of_job


def slurm_job(environment: Mapping[str, str], began: float) -> dict[str, Any] | None:
    """What Slurm allocated to this process's job; None outside of Slurm. `began` is in seconds after 1970.

    Numbers are of the whole job. `seconds_before` runs from the job's start until the process began. What Slurm did not
    give is None, or 0 for `restarts` and `gpus`; only a job that does more than this training has `parts`.
    """
    if "SLURM_JOB_ID" not in environment:
        return None
    start = start_of_job(environment)
    return {
        "id": environment["SLURM_JOB_ID"],
        "name": environment.get("SLURM_JOB_NAME"),
        "cluster": environment.get("SLURM_CLUSTER_NAME"),
        "partition": environment.get("SLURM_JOB_PARTITION"),
        "nodes": _number(environment.get("SLURM_JOB_NUM_NODES")),  # their names are in Slurm's records
        "restarts": _number(environment.get("SLURM_RESTART_COUNT")) or 0,
        "gpus": _gpus(environment),
        "cpus": _cpus(environment.get("SLURM_JOB_CPUS_PER_NODE", "")),
        "start": start,
        # The controller's clock and the node's may differ.
        "seconds_before": None if start is None else round(max(0.0, began - start), 1),
        **({"parts": parts} if (parts := _number(environment.get(PARTS_VARIABLE))) else {}),
    }


def _gpus(environment: Mapping[str, str]) -> int:
    """Number of the job's GPUs: by its option --gpus, such as `h200:4`, else this node's number times the nodes."""
    if counts := re.findall(r"(?:^|[:,])(\d+)(?=,|$)", environment.get("SLURM_GPUS", "")):
        return sum(map(int, counts))
    nodes = _number(environment.get("SLURM_JOB_NUM_NODES")) or 1
    return nodes * (_number(environment.get("SLURM_GPUS_ON_NODE")) or 0)


def _cpus(per_node: str) -> int | None:
    """CPUs of the job, from a list such as `72(x2),36`."""
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", per_node)
    return sum(int(cpus) * int(nodes or 1) for cpus, nodes in groups) if groups else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
