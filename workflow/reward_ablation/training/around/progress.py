"""One line a step in the log: where training is, what it earns, how long it will take."""

from __future__ import annotations

import math
import time

from transformers import TrainerCallback


class ProgressCallback(TrainerCallback):
    """Print step, reward, each component, length and the time left."""

    def __init__(self, components: list[str]):
        self.components = components
        self.start = (0.0, 0)

    def on_train_begin(self, args, state, control, **kwargs):
        self.start = (time.perf_counter(), state.global_step)
        if state.is_world_process_zero:
            print(f"train: {state.max_steps} steps, from step {state.global_step + 1}", flush=True)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or "loss" not in logs or not state.is_world_process_zero:
            return
        if "reward" not in logs:  # a step on rollouts of an earlier one
            print(f"step {state.global_step}/{state.max_steps}: loss {logs['loss']:.4f}", flush=True)
            return
        begun, first_step = self.start
        left = (time.perf_counter() - begun) / max(1, state.global_step - first_step)
        left *= state.max_steps - state.global_step
        scores = " ".join(f"{name} {_mean(logs, f'rewards/{name}/mean')}" for name in self.components)
        length = logs.get("completions/mean_length", float("nan"))
        print(
            f"step {state.global_step}/{state.max_steps}: reward {_mean(logs, 'reward')} ({scores}), "
            f"{length:.0f} tokens, {left:.0f} s left",
            flush=True,
        )


def _mean(logs: dict[str, float | None], metric: str) -> str:
    """The mean of a batch's scores; TRL gives None where no completion has a score."""
    mean = logs.get(metric)
    return "unscored" if mean is None or math.isnan(mean) else f"{mean:.3f}"
