"""Models that are kept on the way, to be evaluated as the final one is."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback


class KeepModels(TrainerCallback):
    """Keep the model after each n-th step but the last, whose model is kept anyway.

    A step's end comes before its checkpoint is saved, which so stands on the models up to its step.

    Parameters
    ----------
    trainer : AblationTrainer
    every : int
        0 for never.
    """

    def __init__(self, trainer: Any, every: int):
        self.trainer = trainer
        self.every = every

    def on_step_end(self, args, state, control, **kwargs):
        if self.every and state.global_step % self.every == 0 and state.global_step < state.max_steps:
            self.trainer.keep_model()
