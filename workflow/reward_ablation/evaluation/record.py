"""The record beside the answers: what made them, and in which time. A start compares it with the present inputs."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.spec.run import EvaluateSpec
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.files import sha256

if TYPE_CHECKING:
    import pyarrow as pa

#: Packages that decide answers and their grades; vLLM where it is installed.
PACKAGES = ("torch", "transformers", "peft", "tokenizers", "numpy", "math-verify", "vllm")


class Clock:
    """Splits the time of a process among the answers that it makes. The clock starts when it is created."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap, or since the start."""
        last, self.last = self.last, time.perf_counter()
        return self.last - last


def record_of(
    spec: EvaluateSpec,
    inputs: dict[str, str],
    models: Sequence[Path],
    answers: pa.Table,
    output: Path,
    seconds: float,
) -> dict[str, Any]:
    """The record of answers that are written.

    `inputs` are the SHA-256 of the problems, and of the record of the run or base model that was evaluated. `models`
    are the folders of the evaluated models, `answers` has the columns of `score.schema_of`, and `output` is its file.
    `seconds` is the wall time in which the answers were made.

    In the record, `tokens` counts generated tokens. `gpu_hours` and `cpu_hours` follow from `seconds`. `size` and
    `sha256` are of the file of answers. Other keys say what made the answers: spec, code, inputs, backend, packages and
    hardware.
    """
    import torch

    from reward_ablation.evaluation.generate import choose_backend
    from reward_ablation.models.device import gpu_name

    on_gpu = spec.device == "cuda"
    return {
        "spec": spec.model_dump(mode="json"),
        "code": deciding_digest("evaluation"),
        "inputs": inputs,
        "backend": choose_backend(spec.evaluation.backend, spec.device),
        "packages": {"python": platform.python_version(), **installed()},
        "hardware": {
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "gpus": [gpu_name()] if on_gpu else [],
        },
        "threads": torch.get_num_threads(),
        "models": [folder.name for folder in models],
        "answers": answers.num_rows,
        "size": output.stat().st_size,
        "sha256": sha256(output),
        "tokens": sum(answers["tokens"].to_pylist()),
        "wall_seconds": round(seconds, 1),
        "gpu_hours": round(seconds / 3600, 4) if on_gpu else 0.0,
        "cpu_hours": round(seconds * torch.get_num_threads() / 3600, 4),
    }


def installed() -> dict[str, str]:
    """Versions of the installed packages among `PACKAGES`."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
