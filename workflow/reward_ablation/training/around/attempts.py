"""Record of a run's attempts: which steps each attempt trained, on which hardware, for how long, and how it ended.

An attempt is one start of the training command that trains. `run` keeps the record while it trains, and `finish` puts
the records of all attempts into run.json, for the costs.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from transformers import TrainerCallback

from reward_ablation.models.device import gpu_name
from reward_ablation.spec.run import Layout
from reward_ablation.study.declarations import declarations
from reward_ablation.study.run_folder import ATTEMPTS, description_of
from reward_ablation.study.standing import DECLARATIONS
from reward_ablation.system.files import write_json
from reward_ablation.training.around.checkpoints import read_json
from reward_ablation.training.around.slurm_job import slurm_job

#: Least seconds between two writes of the record, which are made at the end of a step.
EVERY_SECONDS = 5.0
#: Packages that decide a run's numbers.
PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets", "tokenizers", "numpy", "math-verify")


class Attempt(TrainerCallback):
    """Keeps the record of this attempt up to date; the first process of a run writes it.

    If the attempt is killed, the record lacks the step under way and up to `EVERY_SECONDS` before it. `started` is
    `time.perf_counter()` at the start of the run's first process: somebody may set the system clock.
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
        if standing := declarations(description_of(work.parent)):  # the study's questions and claims as it began
            self.record[DECLARATIONS] = standing

    def write(self, durable: bool = True, **changes: Any) -> None:
        """Write the record, in the first process, with these changes and the time spent until now."""
        if not PartialState().is_main_process:
            return
        self.record |= changes
        self.record["wall_seconds"] = round(time.perf_counter() - self.started, 1)
        self.record["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        write_json([*self.before, self.record], self.path, durable)
        self._written = time.perf_counter()

    def on_train_begin(self, args, state, control, **kwargs):
        self.write(
            start_seconds=round(time.perf_counter() - self.started, 1),
            per_device_train_batch_size=args.per_device_train_batch_size,
            gradient_accumulation_steps=args.gradient_accumulation_steps,
        )

    def on_step_end(self, args, state, control, **kwargs):
        if time.perf_counter() - self._written > EVERY_SECONDS:
            self.write(durable=False, to_step=state.global_step)


def ended_attempts(work: Path, steps: int) -> list[dict[str, Any]]:
    """Records of all attempts of a run of `steps`. The last one may have been killed before it recorded its end."""
    unknown = {"wall_seconds": 0.0, "peak_memory_mb": 0, "ended": "killed"}
    attempts = _read_attempts(work) or [_record(0, _own_gpu()) | unknown]
    attempts[-1]["to_step"] = steps
    return attempts


def _read_attempts(work: Path) -> list[dict[str, Any]]:
    """Records of earlier attempts, in order. One that did not record its end, as after an error, counts as killed."""
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
    """The record of an attempt that has begun; `launched_with` are packages of its layout, such as deepspeed."""
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
