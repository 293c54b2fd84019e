"""DeepSpeed's ways in one of a run's processes: how it begins on a CPU, and how it ends."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def is_zero_worker() -> bool:
    """Whether the launcher has started this process under DeepSpeed."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"


def need_no_compiler() -> None:
    """Have DeepSpeed on a CPU build nothing: what it compiles, in a minute, moves bytes faster and changes none."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def leave(status: int) -> NoReturn:
    """End this process once all of its run have come so far.

    In one of ten runs on CPUs one of two such processes dies of SIGABRT in the interpreter's end, with all work done.
    """
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
