"""Half the micro batch after a GPU ran out of memory: twice the accumulation, the same effective batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_json
from reward_ablation.training.around.checkpoints import read_json
from reward_ablation.training.core.settings import halved

FILE = "micro_batch.json"


def halvings(work: Path) -> int:
    """How often earlier attempts of a run have halved its micro batch."""
    record = read_json(work / FILE)
    return record["halvings"] if record else 0


def halve(work: Path, settings: dict[str, Any], times: int) -> int:
    """Have the next attempt halve the micro batch once more; returns the micro batch of that attempt.

    Parameters
    ----------
    settings : dict
        The run's training settings.
    times : int
        How often the micro batch is halved in this attempt. The file does not say so any more where another process
        of the run has run out of memory, too.

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
