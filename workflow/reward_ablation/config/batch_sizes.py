"""How many completions a run generates and trains on at a time, as TRL derives it from several settings.

`steps_per_generation` and `generation_batch_size` set the same thing, and `gradient_accumulation_steps` sets it where
both are left out. A check therefore looks here, and not at one of these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BatchSizes:
    """Sizes of one run's batches, with TRL's defaults."""

    micro_batch: int  # completions of a micro-batch, in each process
    accumulation: int  # micro-batches of an optimiser step, in each process
    generated: int  # micro-batches that are generated at once, in each process: TRL's steps_per_generation
    iterations: int  # how often a generation is trained on
    processes: int
    setting: str  # the setting that decides `generated`

    @classmethod
    def of(cls, training: Mapping[str, Any], processes: int) -> BatchSizes:
        """The sizes by TRL's settings, as written in a config or as TRL has completed them."""
        micro_batch = training.get("per_device_train_batch_size", 8)
        accumulation = training.get("gradient_accumulation_steps", 1)
        generated, setting = accumulation, "gradient_accumulation_steps"
        if training.get("steps_per_generation"):
            generated, setting = training["steps_per_generation"], "steps_per_generation"
        elif batch := training.get("generation_batch_size"):
            generated, setting = batch // max(1, micro_batch * processes), "generation_batch_size"
        return cls(micro_batch, accumulation, generated, training.get("num_iterations", 1), processes, setting)

    @property
    def rows(self) -> int:
        """Completions that each process generates at once."""
        return self.micro_batch * self.generated

    @property
    def completions(self) -> int:
        """Completions that all processes generate at once: TRL's generation_batch_size."""
        return self.rows * self.processes

    @property
    def for_one_step(self) -> bool:
        """Whether each optimiser step has one generation of its own, and trains on it once."""
        return self.generated == self.accumulation and self.iterations == 1
