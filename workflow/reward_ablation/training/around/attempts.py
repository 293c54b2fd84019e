"""The attempts of a run: what each of them trained, on what, for how long, and how it ended."""

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
from reward_ablation.study.run_folder import ATTEMPTS
from reward_ablation.study.run_spec import Layout
from reward_ablation.system.files import write_json
from reward_ablation.training.around.checkpoints import read_json
from reward_ablation.training.around.slurm_job import slurm_job

#: Seconds between two writes of the record.
EVERY_SECONDS = 5.0
PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets", "tokenizers", "numpy", "math-verify")


def packages(launched_with: Sequence[str] = ()) -> dict[str, str]:
    """Versions of Python and of the packages that decide a run's numbers, `launched_with` those of its layout."""
    return {"python": platform.python_version(), **{name: version(name) for name in (*PACKAGES, *launched_with)}}


def hardware(gpus: list[str]) -> dict[str, Any]:
    """The machine that this process runs on, with the GPUs of its run."""
    return {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "gpus": gpus,
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
    }


def gpus_of_run(server_gpus: int) -> list[str]:
    """The GPUs of all processes of a run, those on other nodes too, and of its vLLM server, which is on the first."""
    of_processes = gather_object(own_gpu())
    return of_processes + of_processes[:1] * server_gpus


def own_gpu() -> list[str]:
    """The GPU that this process trains on; none on a CPU."""
    return [gpu_name()] if PartialState().device.type != "cpu" else []


def read_attempts(work: Path) -> list[dict[str, Any]]:
    """All attempts so far, the first one first."""
    attempts = read_json(work / ATTEMPTS)
    if attempts is None and (work / ATTEMPTS).exists():
        print(f"train: {work / ATTEMPTS} is not what was written there: earlier attempts are not on record", flush=True)
    return attempts or []


def ended_attempts(work: Path, steps: int) -> list[dict[str, Any]]:
    """All attempts of a run whose steps are all trained, also where the last one was killed before it noted its end."""
    attempts = read_attempts(work) or [_record(0, own_gpu()) | {"wall_seconds": 0.0, "peak_memory_mb": 0}]
    for attempt in attempts:
        attempt.setdefault("ended", "killed")
    attempts[-1]["to_step"] = steps
    return attempts


def _record(from_step: int, gpus: list[str], launched_with: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "from_step": from_step,
        "to_step": from_step,
        "packages": packages(launched_with),
        "hardware": hardware(gpus),
        "threads": torch.get_num_threads(),
    }


class Attempt(TrainerCallback):
    """Keep this attempt's record up to date: a killed one leaves what it had spent, but for some seconds.

    All processes of a run make one, the first keeps the record. Times are by a clock that nobody sets.

    Parameters
    ----------
    work : Path
        The run's work folder.
    from_step : int
        Optimiser steps that were there before.
    started : float
        `time.perf_counter()` at the start of the process.
    layout : Layout
        The run's: it says what is beside the processes.
    """

    def __init__(self, work: Path, from_step: int, started: float, layout: Layout):
        self.path = work / ATTEMPTS
        self.started = started
        self._written = started
        self.before = read_attempts(work)
        for attempt in self.before:
            attempt.setdefault("ended", "killed")
        gpus = gpus_of_run(layout.server_gpus)
        self.record = _record(from_step, gpus, layout.packages)
        began = time.time() - (time.perf_counter() - started)
        if PartialState().is_main_process and (job := slurm_job(os.environ, began)):
            self.record["slurm"] = job

    def write(self, durable: bool = True, **changes: Any) -> None:
        """Write the record with the time spent until now."""
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
