"""The heartbeat of a run: a small file in which the training process says what it is doing.

Training writes it every few seconds; `status` and `watch` read it. It is a module of `study`, which both sides may
import: training imports nothing of `start`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from reward_ablation.system.files import atomic_path

#: Name of the heartbeat in the work folder of an unfinished run.
FILE = "heartbeat.json"
#: What a process is doing, in the words that `status` shows.
STARTING, TRAINING, SAVING, STOPPED = "starting", "training", "saving a checkpoint", "stopped"
#: Seconds between two heartbeats while training.
EVERY_SECONDS = 5.0


class Heartbeat(BaseModel):
    """What a process was doing when it wrote the file."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=True)

    at: float  # time of writing in seconds since 1970, by the clock of the process's machine
    doing: str  # in the words that `status` shows
    step: int | None = None  # number of finished optimiser steps; None before training begins
    steps: int | None = None  # number of all optimiser steps; None before training begins
    reward: float | None = None  # mean of the last step that generated completions; None if no completion has a score
    seconds_per_step: float | None = None  # mean over this attempt's steps
    why: str = ""  # why the process has stopped; empty before

    @property
    def stopped(self) -> bool:
        """Whether the process has stopped in order, so that the same command resumes from its checkpoint."""
        return self.doing == STOPPED


def beat(work: Path, doing: str, **facts: Any) -> None:
    """Write the heartbeat if that is possible. Facts that are not passed stay, except in a new attempt (`STARTING`)."""
    before = None if doing == STARTING else read_heartbeat(work)
    known = before.model_dump() if before else {}
    now = Heartbeat.model_validate({**known, **facts, "doing": doing, "at": time.time()})
    with suppress(OSError), atomic_path(work / FILE, durable=False) as temporary:
        temporary.write_text(now.model_dump_json() + "\n")


def read_heartbeat(work: Path) -> Heartbeat | None:
    """The heartbeat in a work folder; None if there is none, or it cannot be read."""
    try:
        return Heartbeat.model_validate_json((work / FILE).read_bytes())
    except (OSError, ValueError):
        return None
