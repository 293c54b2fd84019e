"""The heartbeat of a run: a small file in which a training process says what it is doing, and which `status` reads."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from reward_ablation.system.files import atomic_path

#: In the work folder of an unfinished run.
FILE = "heartbeat.json"
#: What a process is doing, in the words that `status` shows.
STARTING, TRAINING, SAVING, STOPPED = "starting", "training", "saving a checkpoint", "stopped"
#: Seconds between two heartbeats while training.
EVERY_SECONDS = 5.0


class Heartbeat(BaseModel):
    """What a process was doing when it wrote the file.

    Attributes
    ----------
    at : float
        When the file was written, in seconds since 1970, by the clock of the process's machine.
    doing : str
    step, steps : int or None
        Optimiser steps that are done, and in all; None before training begins.
    reward : float or None
        Mean reward of the last step that generated completions; None where no completion has a score.
    seconds_per_step : float or None
        Mean of this attempt's steps.
    why : str
        Why the process has stopped.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=True)

    at: float
    doing: str
    step: int | None = None
    steps: int | None = None
    reward: float | None = None
    seconds_per_step: float | None = None
    why: str = ""

    @property
    def stopped(self) -> bool:
        """Whether the process has stopped in order: the same command goes on from its checkpoint."""
        return self.doing == STOPPED


def beat(work: Path, doing: str, **facts: Any) -> None:
    """Write the heartbeat; facts of this attempt that are not given stay as they were.

    The file may be lost in a power cut: nothing is flushed to disk. A file that cannot be written is left out, since
    no run should fail for its heartbeat.

    Parameters
    ----------
    work : Path
        Work folder of the run.
    doing : str
        `STARTING` begins a new attempt, which knows no facts yet.
    facts : int, float or str
        Attributes of `Heartbeat`.
    """
    before = None if doing == STARTING else read_heartbeat(work)
    known = before.model_dump() if before else {}
    now = Heartbeat.model_validate({**known, **facts, "doing": doing, "at": time.time()})
    with suppress(OSError), atomic_path(work / FILE, durable=False) as temporary:
        temporary.write_text(now.model_dump_json() + "\n")


def read_heartbeat(work: Path) -> Heartbeat | None:
    """The heartbeat in a work folder; None where there is none, or none that can be read."""
    try:
        return Heartbeat.model_validate_json((work / FILE).read_bytes())
    except (OSError, ValueError):
        return None
