"""GPUs of this machine: their number, and claims by which a run has its GPUs to itself.

The jobs that train, evaluate or score by a model claim GPUs before they import torch. `reward-ablation run` counts
GPUs, to limit how many jobs run at once. Without claims, runs that start side by side, of one study or of several,
would all use the first GPU. A run claims its GPUs by locks that the kernel frees when their holder dies.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from reward_ablation.system.errors import PassingError, StudyError
from reward_ablation.system.locks import Held, Lock, run_when_free, take, wait_for

#: Folder of the locks: on this machine, and the same for all processes of a user, whatever their TMPDIR.
LOCKS = Path("/var/tmp")
#: Environment variable that passes the paths of a run's locks on to the processes of its launcher.
CLAIMED = "REWARD_ABLATION_GPU_LOCKS"
#: Most seconds between two checks for a free GPU. This is short compared with a run, which takes minutes at least.
POLL_EVERY = 2.0
#: Seconds to wait for nvidia-smi, which is slow on a machine that just woke up.
PATIENCE = 60

_LOWER = "lower launch.gpus (0 is the CPU)"


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a part of a GPU that NVIDIA's MIG has made."""

    name: str  # as in CUDA_VISIBLE_DEVICES: the number that nvidia-smi gives (vLLM reads no UUIDs there)
    identity: str  # unique on this machine, and equal in all processes; within a Slurm job, in all processes of the job


#: The GPU of a Mac. CUDA has no name for it.
APPLE_GPU = Gpu("mps", "mps")


def is_apple(system: str = sys.platform, machine: str = platform.machine()) -> bool:
    """Whether this is a Mac with Apple silicon, which has one GPU without a number."""
    return system == "darwin" and machine == "arm64"


def count_gpus() -> tuple[int, str]:
    """The number of GPUs that `launch.gpus: auto` means on this machine, and the device in words."""
    if not gpus_here():
        return 0, "the CPU"
    return 1, "Apple's GPU" if is_apple() else "an NVIDIA GPU"


def gpus_here() -> list[Gpu]:
    """GPUs on which runs may be started: all of this machine, or those that CUDA_VISIBLE_DEVICES names."""
    if is_apple():
        return [APPLE_GPU]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = None if visible is None else _names(visible)
    if names == []:
        return []
    if names is not None and _given_by_slurm():
        # Slurm numbers a job's GPUs as it likes: a number says nothing outside of the job, and all are the job's own.
        return [Gpu(name, f"slurm-{os.environ['SLURM_JOB_ID']}-{name}") for name in names]
    listed = _listed()
    if names is None:
        return listed or []
    if listed is None:
        return [Gpu(name, name) for name in names]
    return list(dict.fromkeys(_find(name, listed) for name in names))


def claim_gpus(count: int, what: str, server: int = 0) -> list[Lock]:
    """Claim `count` GPUs, 1 or more, that no other run uses, and hide all other GPUs. Wait while too few are free.

    No claim is needed if the run takes all GPUs that Slurm gave the job, nor for Apple's GPU. A process that a launcher
    has started holds the claims of its run, too, in case the launcher dies first. `server` of the GPUs are for vLLM.
    """
    if CLAIMED in os.environ:
        return [wait_for(path, what, shared=True) for path in os.environ[CLAIMED].split(os.pathsep)]
    gpus = gpus_here()
    if len(gpus) < count:
        raise StudyError(f"launch.gpus: {too_few_gpus_text(count, len(gpus), server)}")
    if (_given_by_slurm() and len(gpus) == count) or gpus == [APPLE_GPU]:
        return []

    def line(holders: Held, by_now: str) -> str:
        return f"{what}: waiting for {_gpus(count)}{by_now}; {holders}"

    claimed = run_when_free(lambda: _take_free(gpus, count), line, look_every=POLL_EVERY)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.name for gpu in claimed)
    if any(gpu.identity.startswith("GPU-") for gpu in claimed):
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as nvidia-smi numbers them; CUDA begins with the fastest
    os.environ[CLAIMED] = os.pathsep.join(str(_lock_file(gpu)) for gpu in claimed)
    return list(claimed.values())


def too_few_gpus_text(asked: int, there: int, server: int = 0) -> str:
    """Message for a run that needs more GPUs, including its vLLM server's, than there are; with what to do."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    where, because = "this machine shows", ""
    if visible is not None:
        where = "this Slurm job was given" if _given_by_slurm() else where
        because = f" (CUDA_VISIBLE_DEVICES={visible})"
    elif shutil.which("nvidia-smi") is None:
        because = " (there is no nvidia-smi; GPUs that are here all the same can be named in CUDA_VISIBLE_DEVICES)"
    takes, lower = f"a run takes {_gpus(asked)}", _LOWER
    if server:
        takes = f"{takes}, {asked - server} to train on and {server} for its vLLM server,"
        lower = "lower launch.gpus or launch.vllm.gpus, or take mode: colocate"
    return f"{takes} and {where} {_gpus(there) if there else 'none'}{because}; {lower}"


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _given_by_slurm() -> bool:
    """Whether Slurm says which GPUs this job has. If Slurm does not manage GPUs, a job may use all of its node."""
    return {"SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"} <= os.environ.keys()


def _names(visible: str) -> list[str]:
    """Entries of CUDA_VISIBLE_DEVICES, each once, up to a -1, where CUDA stops reading."""
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return list(dict.fromkeys(names[: names.index("-1")] if "-1" in names else names))


def _find(name: str, listed: list[Gpu]) -> Gpu:
    """The GPU that an entry of CUDA_VISIBLE_DEVICES means: a number, the beginning of a UUID, or a part of a GPU."""
    if name.startswith("MIG-"):
        return Gpu(name, name)
    for gpu in listed:
        if name == gpu.name or (name.startswith("GPU-") and gpu.identity.startswith(name)):
            return gpu
    there = ", ".join(gpu.name for gpu in listed)
    raise StudyError(f"CUDA_VISIBLE_DEVICES: {name}: no GPU of this machine; nvidia-smi lists {there}")


def _listed() -> list[Gpu] | None:
    """All whole GPUs that nvidia-smi lists; None if there is no nvidia-smi, as in some containers."""
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        raise PassingError(f"nvidia-smi: no answer within {PATIENCE} s; see to the driver, or {_LOWER}") from None
    if result.returncode:
        lines = (result.stdout + result.stderr).strip().splitlines() or [f"exit status {result.returncode}"]
        raise PassingError(f"nvidia-smi: {lines[0]}; see to the driver, or {_LOWER}")
    rows = [line.split(",") for line in result.stdout.splitlines() if line.strip()]
    return [Gpu(index.strip(), uuid.strip()) for index, uuid in rows]


def _take_free(gpus: list[Gpu], count: int) -> dict[Gpu, Lock]:
    """Claim `count` of these GPUs, or raise `Held` and keep none: two that each kept some would wait for ever."""
    taken: dict[Gpu, Lock] = {}
    holders = []
    for gpu in gpus:
        try:
            taken[gpu] = take(_lock_file(gpu))
        except Held as holder:
            holders.append(f"GPU {gpu.name} is held by {holder}")
        if len(taken) == count:
            return taken
    for lock in taken.values():
        lock.release()
    raise Held(", ".join(holders))


def _lock_file(gpu: Gpu) -> Path:
    return LOCKS / f"reward-ablation-{os.getuid()}" / f"gpu-{gpu.identity.removeprefix('GPU-')}.lock"
