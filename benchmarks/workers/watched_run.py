"""Clocks and given completions that `benchmarks/gpu_check.py` puts into a run's processes, with the run's rewards.

A run loads its rewards from this file. If the environment has GPU_CHECK_TIMES, the run's first process appends the
seconds of each part of a step to that file, as lines of JSON. If it has GPU_CHECK_GIVEN, completions are not generated
but read from that file, by the tokens of their prompts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

#: Parts of a step, by their names in TRL's own profiling without the class.
PARTS = {
    "transformers.generate": "generation",
    "vLLM.generate": "generation",
    "sync_weights": "synchronisation",
    "_calculate_rewards": "scoring",
    "_prepare_inputs": "preparation",
}


def length(completions: list, completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """Minus the number of tokens."""
    return [-float(len(ids)) for ids in completion_ids]


def even(completions: list, completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """Share of tokens with an even number."""
    return [sum(token % 2 == 0 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def early(completions: list, completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """Share of tokens with a number below 500."""
    return [sum(token < 500 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def now() -> float:
    """Time in seconds, after the GPU has finished its work."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


class Clock:
    """Writes the seconds of each part of a step as a line of a file."""

    def __init__(self, path: Path):
        self.path = path
        self.step = 0

    def record(self, part: str, seconds: float) -> None:
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else 0
        with self.path.open("a") as file:
            file.write(json.dumps({"step": self.step, "part": part, "seconds": seconds, "peak": peak}) + "\n")

    def timed(self, part: str, call: Callable) -> Callable:
        """The same function. Each call records its seconds."""

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = now()
            try:
                return call(*args, **kwargs)
            finally:
                self.record(part, now() - start)

        return wrapper


def watch(clock: Clock) -> None:
    """Time the parts that TRL profiles, the training step and the optimiser's step."""
    from accelerate.optimizer import AcceleratedOptimizer
    from transformers import Trainer
    from trl.extras.profiling import ProfilingContext

    def enter(context: Any) -> Any:
        context._start_time = now()
        return context

    def leave(context: Any, *error: Any) -> bool:
        part = PARTS.get(context.name.partition(".")[2])
        if part:
            clock.record(part, now() - context._start_time)
        return False

    ProfilingContext.__enter__, ProfilingContext.__exit__ = enter, leave  # type: ignore[method-assign]
    AcceleratedOptimizer.step = clock.timed("update", AcceleratedOptimizer.step)  # type: ignore[method-assign]
    step = clock.timed("step", Trainer.training_step)

    def training_step(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        clock.step = trainer.state.global_step + 1
        return step(trainer, *args, **kwargs)

    Trainer.training_step = training_step  # type: ignore[method-assign]
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        from deepspeed import DeepSpeedEngine

        # This part lies within the training step.
        DeepSpeedEngine.step = clock.timed("update by DeepSpeed", DeepSpeedEngine.step)


def give(path: Path) -> None:
    """Replace generation: each rollout of a group gets its own completion from the file."""
    from trl import GRPOTrainer

    completions = json.loads(path.read_text())

    def generate(trainer: Any, prompt_ids: list, images: Any, fields: Any, num_generations: int, *more: Any, **kw: Any):
        first = trainer.accelerator.process_index * len(prompt_ids)
        places = [(first + i) % num_generations for i in range(len(prompt_ids))]
        return [completions[str(prompt)][place] for prompt, place in zip(prompt_ids, places, strict=True)], None

    GRPOTrainer._generate_single_turn = generate  # type: ignore[method-assign]


if "GPU_CHECK_TIMES" in os.environ and os.environ.get("RANK", "0") == "0":
    watch(Clock(Path(os.environ["GPU_CHECK_TIMES"])))
if "GPU_CHECK_GIVEN" in os.environ:
    give(Path(os.environ["GPU_CHECK_GIVEN"]))
