"""A run's workers, the processes that train it: how a process knows that it is one, and workarounds for DeepSpeed.

A launcher, or the supervisor of a vLLM server (`vllm_server`), starts them. The supervised start and the checks before
a start use the refusal of others' launchers.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from reward_ablation.system.errors import StudyError

#: Variable that a run's launcher, or the supervisor of its server, sets for the processes that train the run.
WORKER = "REWARD_ABLATION_WORKER"
#: Variable with the path of a file, in a run on several nodes. A node's launcher creates this file when the run fails
#: with a permanent error.
ERROR_STAYS = "REWARD_ABLATION_ERROR_STAYS"
#: Variables of accelerate that change no number.
_HARMLESS = ("ACCELERATE_LOG_LEVEL", "ACCELERATE_DEBUG_MODE", "ACCELERATE_DISABLE_RICH", "ACCELERATE_CPU_AFFINITY")


def is_worker() -> bool:
    """Whether the run's launcher, or the supervisor of its server, has started this process."""
    return WORKER in os.environ


def refuse_other_launchers() -> None:
    """Refuse others' launchers, whose processes would each start all of the run, and accelerate's variables."""
    if is_worker():
        return
    for name in sorted(os.environ):
        if name.startswith("ACCELERATE_") and name not in _HARMLESS:
            raise StudyError(
                f"launch: {name} is set, and accelerate would train by it; `unset {name}`, set training's keys"
            )
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise StudyError(
            "launch: TORCHELASTIC_RUN_ID is set, by torchrun or accelerate; start the training command without a "
            "launcher of your own"
        )


def is_zero_worker() -> bool:
    """Whether the launcher has started this process under DeepSpeed."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"


def need_no_compiler() -> None:
    """Keep DeepSpeed on a CPU from compiling its extension for shared memory: a minute, for the same bytes."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def leave(status: int) -> NoReturn:
    """End this DeepSpeed process without Python's clean-up, once all processes of the run have reached this point.

    In one of ten runs on CPUs, one of the two processes died of SIGABRT in the clean-up, when all work was done.
    """
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
