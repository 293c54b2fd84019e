"""Stop of a run or supervised start that can resume later: after a signal, or before its Slurm job's time is up.

Both add the callback `Interruption` to their trainer and train inside `watching`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from transformers import TrainerCallback

from reward_ablation.cluster.slurm import end_of_job

SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Why a run stops. The processes of a run send each other the index of the reason.
REASONS = (None, *(number.name for number in SIGNALS), "time limit")
#: Seconds that are kept free at the end of a job, in addition to the time for steps and a checkpoint.
SPARE = 30.0


class Stopped(Exception):
    """The run stopped. The same command resumes it from its last checkpoint, saved just now unless memory ran out."""

    def __init__(self, reason: str, step: int, steps: int):
        super().__init__(f"stopped at step {step} of {steps}: {reason}; the same command goes on from there")
        self.reason, self.step = reason, step


class Interruption(TrainerCallback):
    """Saves and stops after the step in which a reason came up, the same in all processes; never in the last step."""

    def __init__(self, environment: Mapping[str, str] = os.environ):
        self.end = end_of_job(environment)
        self.reason: str | None = None  # one of `REASONS`; None while there is no reason to stop
        self._longest = 0.0  # seconds of a step, its checkpoint included
        self._last = time.time()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as a request to stop, as long as the block lasts."""
        before = {number: signal.signal(number, self._note) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        self.reason = self.reason or signal.Signals(number).name

    def on_train_begin(self, args, state, control, **kwargs):
        self._last = time.time()

    def on_step_end(self, args, state, control, **kwargs):
        now = time.time()
        self._longest, self._last = max(self._longest, now - self._last), now
        # Unless another step would fit, even one that takes twice as long as the longest step so far.
        if self.end is not None and now + 2 * self._longest + SPARE > self.end:
            self.reason = self.reason or "time limit"
        if state.global_step >= state.max_steps:
            control.should_save = False  # the final model is saved instead
            return
        self.reason = agreed(self.reason, args.device)
        if self.reason is not None:
            control.should_save = control.should_training_stop = True


def agreed(reason: str | None, device: torch.device) -> str | None:
    """A reason to stop that at least one process of the run has, the same for all; None if no process has one."""
    if not torch.distributed.is_initialized():
        return reason
    number = torch.tensor([float(REASONS.index(reason))], device=device)
    torch.distributed.all_reduce(number, op=torch.distributed.ReduceOp.MAX)
    return REASONS[int(number.item())]
