"""Record of a run's attempts: which steps each attempt trained, on which hardware, for how long, and how it ended.

An attempt is one start of the training command that trains. `finish` puts the record into run.json, for the costs.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from transformers import TrainerCallback

from reward_ablation.cluster.script import PARTS
from reward_ablation.cluster.slurm import start_of_job
from reward_ablation.models.device import gpu_name
from reward_ablation.spec.run import Layout
from reward_ablation.study.declarations import declarations
from reward_ablation.study.run_folder import ATTEMPTS, description_of
from reward_ablation.study.standing import DECLARATIONS
from reward_ablation.system.files import write_json
from reward_ablation.training.around.checkpoints import read_json

#: Seconds between two writes of the record.
EVERY_SECONDS = 5.0
#: Packages that decide a run's numbers.
PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets", "tokenizers", "numpy", "math-verify")


class Attempt(TrainerCallback):
    """Keeps the record of this attempt up to date. If the attempt is killed, only its last seconds are missing.

    All processes of a run make an `Attempt`; the first process writes the record. Durations do not depend on the system
    clock, because somebody may set that clock.

    `work` is the run's work folder, and `from_step` the number of optimiser steps that earlier attempts finished.
    `started` is `time.perf_counter()` at the start of the process.
    """

    def __init__(self, work: Path, from_step: int, started: float, layout: Layout):
        self.path = work / ATTEMPTS
        self.started = started
        self._written = started
        self.before = _read_attempts(work)
        of_processes = gather_object(_own_gpu())  # also from processes on other nodes
        gpus = of_processes + of_processes[:1] * layout.server_gpus  # the server is on the first node
        self.record = _record(from_step, gpus, layout.packages)
        began = time.time() - (time.perf_counter() - started)
        if PartialState().is_main_process and (job := slurm_job(os.environ, began)):
            self.record["slurm"] = job
        if standing := declarations(description_of(work.parent)):
            self.record[DECLARATIONS] = standing

    def write(self, durable: bool = True, **changes: Any) -> None:
        """Write the record with these changes and the time spent until now."""
        self.record |= changes
        self.record["wall_seconds"] = round(time.perf_counter() - self.started, 1)
        self.record["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        write_json([*self.before, self.record], self.path, durable)
        self._written = time.perf_counter()

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self.write(
                start_seconds=round(time.perf_counter() - self.started, 1),
                per_device_train_batch_size=args.per_device_train_batch_size,
                gradient_accumulation_steps=args.gradient_accumulation_steps,
            )

    def on_step_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero and time.perf_counter() - self._written > EVERY_SECONDS:
            self.write(durable=False, to_step=state.global_step)


def ended_attempts(work: Path, steps: int) -> list[dict[str, Any]]:
    """Records of all attempts of a run, once all `steps` are trained.

    The last attempt may have been killed before it recorded its end.
    """
    unknown = {"wall_seconds": 0.0, "peak_memory_mb": 0, "ended": "killed"}
    attempts = _read_attempts(work) or [_record(0, _own_gpu()) | unknown]
    attempts[-1]["to_step"] = steps
    return attempts


def _read_attempts(work: Path) -> list[dict[str, Any]]:
    """Records of earlier attempts, in order. An attempt that did not record its end was killed."""
    attempts = read_json(work / ATTEMPTS)
    if attempts is None and (work / ATTEMPTS).exists():
        print(f"train: {work / ATTEMPTS} is not what was written there: earlier attempts are not on record", flush=True)
    return [{"ended": "killed", **attempt} for attempt in attempts or []]


def _own_gpu() -> list[str]:
    """Name of the GPU that this process trains on, as a list; empty on a CPU."""
    return [gpu_name()] if PartialState().device.type != "cpu" else []


def package_versions(further: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python, of the packages that decide a run's numbers, and of `further` packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in (*PACKAGES, *further)}}


def _record(from_step: int, gpus: list[str], launched_with: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "from_step": from_step,
        "to_step": from_step,
        "packages": package_versions(launched_with),
        "hardware": {
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "gpus": gpus,
            "processes": int(os.environ.get("WORLD_SIZE", "1")),
        },
        "threads": torch.get_num_threads(),
    }


def slurm_job(environment: Mapping[str, str], began: float) -> dict[str, Any] | None:
    """What Slurm allocated to the job of this process; None outside of Slurm.

    `environment` is that of a batch step, or of a step that `srun` began. This process began at the time `began`, in
    seconds since 1970.

    `id`, `name`, `cluster` and `partition` are as Slurm writes them. `nodes`, `gpus` and `cpus` are numbers of the
    whole job. `start` is that of the job, in seconds since 1970, and `seconds_before` runs from there until the process
    began. Where Slurm did not give a value, `restarts` is 0, and any other value is None. Only a job that does more
    than this training has `parts`.
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
        **({"parts": parts} if (parts := _number(environment.get(PARTS))) else {}),
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
