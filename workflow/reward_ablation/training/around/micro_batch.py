"""Half the micro batch after a GPU ran out of memory: twice the accumulation, the same effective batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_json
from reward_ablation.training.around.checkpoints import read_json

FILE = "micro_batch.json"
#: TRL's and transformers' own defaults.
MICRO_BATCH, ACCUMULATION = 8, 1


def halvings(work: Path) -> int:
    """How often earlier attempts of a run have halved its micro batch."""
    record = read_json(work / FILE)
    return record["halvings"] if record else 0


def halve(work: Path, settings: dict[str, Any], times: int) -> int:
    """Have the next attempt halve the micro batch once more; gives the micro batch that it will have.

    Parameters
    ----------
    work : Path
        The run's work folder.
    settings : dict
        Its training settings.
    times : int
        How often it was halved in this attempt, whose processes may all run out of memory.

    Raises
    ------
    StudyError
        The micro batch of this attempt cannot be halved, or half of it is another training.
    """
    if settings.get("loss_type") == "bnpo" or settings.get("top_entropy_quantile", 1.0) < 1:
        raise StudyError(
            "training: the GPU's memory does not hold the micro batch, and half of it would be another training, for "
            "loss_type bnpo and top_entropy_quantile are taken over micro batches; lower per_device_train_batch_size "
            "and raise gradient_accumulation_steps yourself"
        )
    micro_batch = halved(settings, times)["per_device_train_batch_size"]
    if micro_batch % 2:
        raise StudyError(
            f"training: the GPU's memory does not hold a micro batch of {micro_batch}, which cannot be halved; lower "
            "max_completion_length, set gradient_checkpointing, train with lora, or give the run more GPUs"
        )
    write_json({"halvings": times + 1}, work / FILE)
    return micro_batch // 2


def halved(settings: dict[str, Any], times: int) -> dict[str, Any]:
    """Training settings with the micro batch halved so many times, and as many more of them in a step.

    Generation keeps its batch: `steps_per_generation` counts micro batches.
    """
    factor = 2**times
    changes = {
        "per_device_train_batch_size": settings.get("per_device_train_batch_size", MICRO_BATCH) // factor,
        "gradient_accumulation_steps": settings.get("gradient_accumulation_steps", ACCUMULATION) * factor,
    }
    if settings.get("steps_per_generation") is not None:
        changes["steps_per_generation"] = settings["steps_per_generation"] * factor
    return {**settings, **changes}
