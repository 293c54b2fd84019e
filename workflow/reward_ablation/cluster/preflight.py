"""Checks before anything is submitted: whether the cluster can run the jobs, and whether the disk has enough room.

`reward-ablation plan --slurm` makes them through `start.full_check`, which asks for the room on the disk also where the
jobs run on this machine. The Slurm executor checks the jobs at its start, and the disk before its first submission,
when the model is there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from reward_ablation.cluster.command import LEAST, SlurmError, run_slurm_command
from reward_ablation.cluster.request import BUNDLED, Request, arguments, request_of
from reward_ablation.cluster.site import Site
from reward_ablation.cluster.slurm import Node, Partition
from reward_ablation.models.verify import FETCHED
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

#: Numbers that a checkpoint has of each parameter: the weight, and Adam's two moments.
_COPIES_IN_A_CHECKPOINT = 3
#: Number of checkpoints that training keeps by default: its KEPT_CHECKPOINTS, which `cluster` may not import.
_CHECKPOINTS_KEPT = 2
#: Assumed largest share of the model's parameters in a trained adapter, about that of rank 32 on all
#: linear layers of a model with half a billion parameters (3.6 %). Larger models have less.
_ADAPTER_SHARE = 0.05


def check_jobs(
    bundles: Iterable[Sequence[Any]], site: Site, site_file: Path, cluster: Mapping[str, Partition]
) -> str | None:
    """Refuse Slurm jobs that would never run. Returns why Slurm cannot judge some of them now, or None if it can."""
    unknown = None
    requests = {request_of(parts, site) for parts in bundles}
    for request in sorted(requests, key=lambda request: request.kind):
        try:
            refused = refusal(request, site.gpus_by, cluster)
        except SlurmError as error:
            refused, unknown = None, str(error)
        if refused:
            raise StudyError(f"{site_file}: {refused}")
    return unknown


def within_limits(request: Request, cluster: Mapping[str, Partition]) -> Request:
    """The request within what its partition gives: a later attempt asks for more than the first, which was checked."""
    partition = _partition(request, cluster)
    if partition is None:
        return request
    minutes = min(request.minutes, partition.max_minutes or request.minutes)
    but_memory = replace(request, mem_mb=0)
    memories = sorted((node.mem_mb for node in partition.nodes if _can_run(node, but_memory)), reverse=True)
    return replace(request, minutes=minutes, mem_mb=min([request.mem_mb, *memories[: request.nodes]]))


def refusal(request: Request, gpus_by: str, cluster: Mapping[str, Partition]) -> str | None:
    """Why Slurm would never run such a job; None where Slurm would run it."""
    # `sbatch --test-only` is asked, but not where its answer is false (tried on Slurm 22.05). It says "to start at" for
    # a partition that is down, and, unless EnforcePartLimits is set, for a time beyond the partition's limit. It
    # refuses a job for which too few nodes are up now, although `sbatch` accepts the job.
    partition = _partition(request, cluster)
    if partition and not partition.up:
        return f"{request.kind}: partition {partition.name} is down; name another, or wait: `sinfo` shows their states"
    if partition and partition.max_minutes is not None and request.minutes > partition.max_minutes:
        lower = "; lower `hours` of train or evaluate, or leave `bundle` empty" if BUNDLED in request.kind else ""
        return f"{request.kind}: asks for {request.minutes / 60:g} hours; {offer(request, cluster)}{lower}"
    options = arguments(request, gpus_by)
    try:
        run_slurm_command("sbatch", "--test-only", *options, "--wrap=true")
    except SlurmError as error:
        if error.may_pass:
            raise
        if "node configuration is not available" in str(error) and _waits_for_nodes(request, partition):
            return None
        advice = "ask for more, or name another qos" if LEAST.search(str(error)) else offer(request, cluster)
        return f"{request.kind}: Slurm refuses such a job: {error}; {advice} ({' '.join(options)})"
    return None


def offer(request: Request, cluster: Mapping[str, Partition]) -> str:
    """The most that a job can have in the request's partition; the names of all partitions where that is not known."""
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
        f"next job) on {_largest_job(partition)} nodes; a node has at most {most}"
    )


def _waits_for_nodes(request: Request, partition: Partition | None) -> bool:
    """Whether not all nodes are up, and enough could run the request if all were. `sbatch` accepts such a job."""
    if partition is None or all(node.up for node in partition.nodes) or request.nodes > _largest_job(partition):
        return False
    return sum(_can_run(node, request) for node in partition.nodes) >= request.nodes


def _largest_job(partition: Partition) -> int:
    return min(len(partition.nodes), partition.max_nodes or len(partition.nodes))


def _can_run(node: Node, request: Request) -> bool:
    gpus = sum(node.gpus.values()) if request.gpu_type is None else node.gpus.get(request.gpu_type, 0)
    return node.cpus >= request.cpus and node.mem_mb >= request.mem_mb and gpus >= request.gpus_per_node


def _partition(request: Request, cluster: Mapping[str, Partition]) -> Partition | None:
    """The request's partition, or the default one. Several are joined to one, because Slurm takes any that fits."""
    if not request.partition:
        return next((partition for partition in cluster.values() if partition.default), None)
    named = [cluster.get(name) for name in request.partition.split(",")]
    several = [partition for partition in named if partition is not None]
    if len(several) < len(named):
        return None
    if len(several) == 1:
        return several[0]
    minutes, nodes = ([getattr(each, limit) for each in several] for limit in ("max_minutes", "max_nodes"))
    return Partition(
        request.partition,
        default=False,
        up=any(each.up for each in several),
        max_minutes=None if None in minutes else max(minutes),
        nodes=list({node.name: node for each in several for node in each.nodes}.values()),
        max_nodes=None if None in nodes else max(nodes),
    )


def bytes_to_come(parameters: int, specs: Sequence[ArmSpec], at_once: int) -> int:
    """Estimate of the bytes that runs will write: all models, and the checkpoints of the `at_once` largest runs."""
    models, work = [], []
    for spec in specs:
        settings = spec.training
        width = 2 if "16" in str((settings.get("model_init_kwargs") or {}).get("dtype", "float32")) else 4
        model = round(parameters * width * (_ADAPTER_SHARE if spec.lora else 1))
        # For a moment there is one checkpoint more than are kept, before training deletes the oldest.
        checkpoints = (settings.get("save_total_limit") or _CHECKPOINTS_KEPT) + 1
        models.append(model * (1 + models_kept(spec)))
        work.append(model * _COPIES_IN_A_CHECKPOINT * checkpoints)
    return sum(models) + sum(sorted(work, reverse=True)[:at_once])


def models_kept(spec: ArmSpec) -> int:
    """Number of models that a run keeps besides the final model; 0 where the number of steps is not known before."""
    steps, every = spec.training.get("max_steps", -1), spec.keep_models
    return (steps - 1) // every if every and steps > 0 else 0


def no_room(model: Path, results: Path, specs: Mapping[str, ArmSpec], at_once: int) -> str | None:
    """A message if runs need more room than is free plus what they have filled; None if not, or if it is not known."""
    try:
        free = shutil.disk_usage(next(each for each in (results, *results.absolute().parents) if each.exists())).free
        needed = bytes_to_come(_parameters_of(model), list(specs.values()), at_once)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # The second only if needed: the walk over all files of the runs is slow.
    if needed <= free or needed <= free + sum(_bytes_in(results / "runs" / run) for run in specs):
        return None
    return (
        f"{results}: {_gb(free)} free, and {len(specs)} runs, {min(at_once, len(specs))} at once, write up to "
        f"{_gb(needed)} of models and checkpoints; make room, lower save_total_limit, or train fewer at once (--jobs)"
        f"{', or raise keep_models' if any(map(models_kept, specs.values())) else ''}"
    )


def _parameters_of(model: Path) -> int:
    """Number of parameters of a model by its record; else at least, by its files, which have up to 4 bytes for each."""
    if (model / FETCHED).is_file():
        return int(load_json((model / FETCHED).read_text())["parameters"])
    return sum(path.stat().st_size for path in model.glob("model*.safetensors")) // 4


def _bytes_in(folder: Path) -> int:
    """Bytes of all files in a folder; training may remove some of them meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _gb(number: int) -> str:
    return f"{number / 1e9:.3g} GB"
