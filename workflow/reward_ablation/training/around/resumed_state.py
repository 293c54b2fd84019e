"""State that TRL does not save with a checkpoint: rollouts for later steps, the count of micro batches, the epoch.

TRL generates for `steps_per_generation * num_iterations` micro batches at once, and a run may stop between them. TRL
also draws the order of the data anew in each epoch, and a resumed TRL would begin with the first epoch's order. This
module reads and sets private parts of TRL; `tests/training/test_trl.py` pins them.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
from trl.trainer.utils import split_tensor_dict

from reward_ablation.training.core.gradients.step import Completion

Batch = dict[str, Any]


def save_state(trainer: Any, folder: Path) -> None:
    """Save the state that this process needs to resume, into a checkpoint's folder."""
    batch = joined(trainer._buffered_inputs) if rollouts_are_left(trainer) else None
    rows = [] if batch is None else batch["row"].tolist()
    state = {
        "micro_batches": trainer._step,
        "micro_batch": trainer.args.per_device_train_batch_size,
        "generated": trainer.batches,
        "epochs": int(trainer.state.epoch),
        "batch": batch,
        "completions": {row: astuple(trainer._completions[row]) for row in rows},
        "combination": trainer.combination.state if trainer.combination else None,
        "reference": trainer.ref_model.state_dict() if trainer.args.sync_ref_model else None,
    }
    torch.save(state, _file(folder, trainer))


def load_state(trainer: Any, folder: Path) -> None:
    """Restore this process's state from a checkpoint's folder, in a trainer that has not trained yet."""
    state: dict[str, Any] = torch.load(_file(folder, trainer), map_location=trainer.accelerator.device)
    # If the micro batch has been halved since, the same steps are twice as many micro batches.
    trainer._step = state["micro_batches"] * state["micro_batch"] // trainer.args.per_device_train_batch_size
    trainer.batches = state["generated"]
    trainer.epochs = state["epochs"]
    if state["batch"] is not None:
        trainer._buffered_inputs = split_tensor_dict(state["batch"], trainer.args.steps_per_generation)
        trainer._completions = {row: Completion(*fields) for row, fields in state["completions"].items()}
    if trainer.combination:
        trainer.combination.state = state["combination"]
    if state["reference"] is not None:
        trainer.ref_model.load_state_dict(state["reference"])


def rollouts_are_left(trainer: Any) -> bool:
    """Whether the next micro batch trains on rollouts that are already generated."""
    return trainer._step % (trainer.args.steps_per_generation * trainer.num_iterations) != 0


def joined(batches: list[Batch]) -> Batch:
    """Join batches with the same columns. A column that is a single number stays that number."""
    return {
        name: first if first is None or first.ndim == 0 else torch.cat([batch[name] for batch in batches])
        for name, first in batches[0].items()
    }


def _file(folder: Path, trainer: Any) -> Path:
    return folder / f"resumed_state_{trainer.accelerator.process_index}.pt"
