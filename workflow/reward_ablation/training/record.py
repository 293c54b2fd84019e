"""`run.json`: what was trained, by which code, on what, and for how long."""

from __future__ import annotations

import json
import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from reward_ablation.study.files import sha256

PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets", "tokenizers", "numpy", "math-verify")


def run_record(
    spec: str, code: str, inputs: dict[str, Path], steps: int, resumed_from: int, wall_seconds: float, folder: Path
) -> dict[str, Any]:
    """The record of a finished run.

    Parameters
    ----------
    spec : str
        Canonical spec with the seed.
    code : str
        Digest of the code that trained it.
    inputs : dict of str to Path
        Files that were read; listed with their digests.
    steps, resumed_from : int
        Optimiser steps in all, and those that an earlier, interrupted attempt had made.
    wall_seconds : float
        Of this attempt, imports and loading included.
    folder : Path
        The run's folder; its files are listed with their digests.
    """
    parsed = json.loads(spec)
    seed = parsed.pop("seed")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    return {
        "spec": parsed,
        "seed": seed,
        "code": code,
        "inputs": {name: sha256(path) for name, path in inputs.items()},
        "steps": steps,
        "resumed_from": resumed_from,
        "wall_seconds": round(wall_seconds, 1),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "gpu_hours": round(wall_seconds / 3600 * min(gpus, processes), 4),
        "packages": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "hardware": {
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "gpus": [torch.cuda.get_device_name(i) for i in range(min(gpus, processes))],
            "processes": processes,
        },
        "files": {
            str(path.relative_to(folder)): sha256(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "run.json" and not path.relative_to(folder).parts[0].startswith(".")
        },
    }
