"""A run's own processes, once the run has been laid out: how they are known, and DeepSpeed's ways in them."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from reward_ablation.system.errors import StudyError

#: Set by a run's own launcher, and by its server's supervisor, for the processes that train it.
WORKER = "REWARD_ABLATION_WORKER"
#: Of a run on several nodes: the file that a node's launcher makes where the run has met an error that stays.
ERROR_STAYS = "REWARD_ABLATION_ERROR_STAYS"


def is_worker() -> bool:
    """Whether the run's launcher, or the supervisor of its server, has started this process."""
    return WORKER in os.environ


def refuse_other_launchers() -> None:
    """Refuse to be one of several processes of a launcher that the run has not started: each would lay it out again."""
    if "TORCHELASTIC_RUN_ID" in os.environ and not is_worker():
        raise StudyError(
            "launch: TORCHELASTIC_RUN_ID is set, by torchrun or accelerate; start the training command by no "
            "launcher of your own"
        )


def is_zero_worker() -> bool:
    """Whether the launcher has started this process under DeepSpeed."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"


def need_no_compiler() -> None:
    """Have DeepSpeed on a CPU build nothing: what it compiles, in a minute, moves bytes faster and changes none."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def leave(status: int) -> NoReturn:
    """End this process of DeepSpeed without Python's own clean-up, once all processes of the run have come so far.

    In one of ten runs on CPUs, one of two such processes dies of SIGABRT in that clean-up, with all work done.
    """
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
