"""Progress of the training: one line per step in the log, with reward and time left, and the heartbeat for `status`.

`run` gives the callback to its trainer. All processes call it, and the first one writes.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from transformers import TrainerCallback

from reward_ablation.study.heartbeat import EVERY_SECONDS, SAVING, TRAINING, beat


class ProgressCallback(TrainerCallback):
    """Prints step, reward, each component, length and time left; writes the heartbeat every few seconds."""

    def __init__(self, components: list[str], work: Path):
        self.components = components
        self.work = work
        self.start = (0.0, 0)  # time and step at which this attempt began to train
        self.written = -math.inf  # time of the last heartbeat

    def on_train_begin(self, args, state, control, **kwargs):
        self.start = (time.perf_counter(), state.global_step)
        if state.is_world_process_zero:
            print(f"train: {state.max_steps} steps, from step {state.global_step + 1}", flush=True)
            beat(self.work, TRAINING, step=state.global_step, steps=state.max_steps)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or "loss" not in logs or not state.is_world_process_zero:
            return
        begun, first_step = self.start
        pace = (time.perf_counter() - begun) / max(1, state.global_step - first_step)
        new = {"reward": logs["reward"]} if "reward" in logs else {}
        if time.perf_counter() - self.written > EVERY_SECONDS:
            beat(self.work, TRAINING, step=state.global_step, seconds_per_step=pace, **new)
            self.written = time.perf_counter()
        if not new:  # the step trains on rollouts of an earlier step
            print(f"step {state.global_step}/{state.max_steps}: loss {logs['loss']:.4f}", flush=True)
            return
        left = pace * (state.max_steps - state.global_step)
        scores = " ".join(f"{name} {_mean(logs, f'rewards/{name}/mean')}" for name in self.components)
        length = logs.get("completions/mean_length", float("nan"))
        print(
            f"step {state.global_step}/{state.max_steps}: reward {_mean(logs, 'reward')} ({scores}), "
            f"{length:.0f} tokens, {left:.0f} s left",
            flush=True,
        )

    def on_step_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero and control.should_save:
            beat(self.work, SAVING, step=state.global_step)

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            beat(self.work, TRAINING, step=state.global_step)


def _mean(logs: dict[str, float | None], metric: str) -> str:
    """Mean of a batch's scores as text. TRL gives None where no completion has a score."""
    mean = logs.get(metric)
    return "unscored" if mean is None or math.isnan(mean) else f"{mean:.3f}"
