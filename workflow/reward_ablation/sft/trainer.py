"""TRL's SFTTrainer with sealed checkpoints, and a line per step in the log.

`fine_tune` makes it, once. A sealed checkpoint has digests of its files, so a half-written one is never continued from.
"""

from __future__ import annotations

import time
from pathlib import Path

from transformers import TrainerCallback
from trl import SFTTrainer

from reward_ablation.training.around.checkpoints import drop_old, seal


class StartTrainer(SFTTrainer):
    """Saves checkpoints from which an interrupted start continues to the same result, however and whenever it ended."""

    _saved_at: int | None = None

    def _save_checkpoint(self, model, trial):
        if self._saved_at == self.state.global_step:  # transformers would save again at the end of an epoch
            return
        self._saved_at = self.state.global_step
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # `drop_old` removes, after the seal
        super()._save_checkpoint(model, trial)
        self.args.save_total_limit = limit
        # The folder of parts does not exist: a supervised start writes no tables.
        work = Path(str(self.args.output_dir))
        seal(work / f"checkpoint-{self.state.global_step}", self.state.global_step, work / "parts", {})
        drop_old(work, limit)

    def create_model_card(self, *arguments, **keywords):
        """Write no model card into checkpoints."""


class Progress(TrainerCallback):
    """Print step, loss and the time left."""

    def __init__(self) -> None:
        self.start = (0.0, 0)

    def on_train_begin(self, args, state, control, **kwargs):
        self.start = (time.perf_counter(), state.global_step)
        print(f"sft: {state.max_steps} steps, from step {state.global_step + 1}", flush=True)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or "loss" not in logs:
            return
        begun, first_step = self.start
        left = (time.perf_counter() - begun) / max(1, state.global_step - first_step)
        left *= state.max_steps - state.global_step
        print(f"step {state.global_step}/{state.max_steps}: loss {logs['loss']:.4f}, {left:.0f} s left", flush=True)
