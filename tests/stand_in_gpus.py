"""A machine with imaginary GPUs: a program that answers like nvidia-smi, and real locks.

The machines that run these tests have no GPU. The tests show which process gets which GPU. They do not test
that CUDA then hides all other GPUs from a process, which NVIDIA documents.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from reward_ablation.system.gpus import LOCKS

SCRIPT = """#!/bin/sh
case "$*" in
    "--query-gpu=index,uuid --format=csv,noheader") echo >> '{calls}'; cat '{listed}' ;;
    *) echo "not known here: $*"; exit 2 ;;
esac
"""


class Machine:
    """A machine with so many GPUs, whose UUIDs no other has. The program lies in the folder."""

    def __init__(self, folder: Path, gpus: int):
        self.uuids = [str(uuid.uuid4()) for _ in range(gpus)]
        self.program = folder / "bin" / "nvidia-smi"
        self._calls = folder / "calls.txt"
        self.program.parent.mkdir(parents=True)
        listed = folder / "listed.csv"
        listed.write_text("".join(f"{index}, GPU-{name}\n" for index, name in enumerate(self.uuids)))
        self.says(SCRIPT.format(calls=self._calls, listed=listed))

    def says(self, script: str) -> None:
        """Have nvidia-smi be this script."""
        self.program.write_text(script)
        self.program.chmod(0o755)

    @property
    def calls(self) -> int:
        """How often nvidia-smi was asked which GPUs there are."""
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0

    @property
    def locks(self) -> list[Path]:
        """The files of the locks on its GPUs."""
        return [self.lock(name) for name in self.uuids]

    @staticmethod
    def lock(identity: str) -> Path:
        """The file of the lock on the GPU or share with this identity."""
        return LOCKS / f"reward-ablation-{os.getuid()}" / f"gpu-{identity}.lock"

    def environment(self, **more: str) -> dict[str, str]:
        """Environment of a process on this machine that has no GPU assigned yet."""
        others = {name: value for name, value in os.environ.items() if name not in _OF_GPUS}
        return {**others, "PATH": f"{self.program.parent}:{os.environ['PATH']}", **more}

    def clear(self) -> None:
        """Delete the files of all locks, also those of shares."""
        for path in self.locks:
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink()


_OF_GPUS = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID", "REWARD_ABLATION_GPU_LOCKS"}
