"""`run.json`: what was trained, by which code, on what, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reward_ablation.system.files import sha256

#: What training leaves in a run's folder; whatever else lies there is somebody's own.
OUTPUTS = ("*.parquet", "gradients_step_*.npz", "model/**/*", "model-step*/**/*")


def run_record(owner: dict[str, Any], attempts: list[dict[str, Any]], steps: int, folder: Path) -> dict[str, Any]:
    """The record of a finished run.

    Parameters
    ----------
    owner : dict
        Spec with the seed, digest of the code and of its modules, digests of the inputs; taken when the run began.
    attempts : list of dict
        Of its attempts, the first one first.
    steps : int
        Optimiser steps.
    folder : Path
        The run's folder; its files are listed with their digests and with their sizes in bytes.
    """
    spec = dict(owner["spec"])
    gpu_seconds = sum(attempt["wall_seconds"] * len(attempt["hardware"]["gpus"]) for attempt in attempts)
    threads = [attempt["hardware"]["processes"] * attempt["threads"] for attempt in attempts]
    cpu_seconds = sum(attempt["wall_seconds"] * number for attempt, number in zip(attempts, threads, strict=True))
    files = sorted(path for pattern in OUTPUTS for path in folder.glob(pattern) if path.is_file())
    return {
        "seed": spec.pop("seed"),
        "spec": spec,
        "code": owner["code"],
        "modules": owner["modules"],
        "inputs": owner["inputs"],
        "steps": steps,
        "attempts": attempts,
        "wall_seconds": round(sum(attempt["wall_seconds"] for attempt in attempts), 1),
        "gpu_hours": round(gpu_seconds / 3600, 4),
        "cpu_hours": round(cpu_seconds / 3600, 4),
        "peak_memory_mb": max(attempt["peak_memory_mb"] for attempt in attempts),
        "packages": attempts[-1]["packages"],
        "hardware": attempts[-1]["hardware"],
        "files": {str(path.relative_to(folder)): sha256(path) for path in files},
        "sizes": {str(path.relative_to(folder)): path.stat().st_size for path in files},
    }
