"""What the end of a log tells: how far training is, and how a process ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Bytes at the end of a log that are read: some hundred steps.
TAIL = 64 << 10

#: As `training.progress` writes them; a step on rollouts of an earlier one has neither reward nor time.
_STEP = re.compile(r"step (\d+)/(\d+): (?:reward (\S+) .* (\d+) s left$)?")
_BEGIN = re.compile(r"train: (\d+) steps, from step (\d+)$")
#: As `training.interruption` and `training.launch.beside_server` word it.
_STOPPED = re.compile(
    r"train: stopped (?:at step \d+ of \d+|before training began): (.*?)(?:; the same command goes on from there)?$"
)
#: What torch puts before the lines of one of several processes.
_RANK = re.compile(r"(?:\[rank(\d+)\]: ?)?(.*)")
#: The last line of a traceback.
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|$)")
#: Exceptions of launchers, which say only that a process of the run has failed; and the line that says by which signal.
_LAUNCHERS = ("ChildFailedError", "CalledProcessError")
_SIGNAL = re.compile(r"\s+traceback : (Signal .*)")


@dataclass(frozen=True)
class RunLog:
    """The end of a log.

    Attributes
    ----------
    changed : float
        When it was last written to, in seconds since 1970.
    step, steps : int or None
        Optimiser steps that are done, and in all; None before training begins.
    reward : float or None
        Of the last step that tells one.
    seconds_left : float or None
        As that step told.
    stopped : str or None
        Why the run was stopped in order: it goes on when it is started again.
    error : str or None
        The error that the process ended with.
    last : str
        The last line with a letter or digit in it.
    """

    changed: float
    step: int | None = None
    steps: int | None = None
    reward: float | None = None
    seconds_left: float | None = None
    stopped: str | None = None
    error: str | None = None
    last: str = ""

    @property
    def ended(self) -> bool:
        """Whether it tells how its process ended."""
        return self.stopped is not None or self.error is not None


def read_run_log(path: Path) -> RunLog | None:
    """Read the end of a log; None where there is none."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(max(0, status.st_size - TAIL))
            text = file.read(TAIL).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return None
    return parse(text, status.st_mtime)


def parse(text: str, changed: float) -> RunLog:
    """What the text at the end of a log says."""
    lines = list(_lines(text))
    step = steps = reward = left = None
    after = 0  # what stands before the last step did not end the run
    for number, line in enumerate(lines, 1):
        if found := _STEP.match(line):
            step, steps, after = int(found[1]), int(found[2]), number
            if found[3]:
                reward, left = _number(found[3]), float(found[4])
        elif found := _BEGIN.match(line):
            step, steps, after = int(found[2]) - 1, int(found[1]), number
    rest = lines[after:]
    stopped = next((found[1] for line in reversed(rest) if (found := _STOPPED.match(line))), None)
    error = next((line for line in reversed(rest) if line.startswith("error: ")), None)
    if error is not None:
        stopped = None
    elif stopped is None:
        error = _raised(rest)
    last = next((line.strip() for line in reversed(lines) if any(char.isalnum() for char in line)), "")
    return RunLog(changed, step, steps, reward, left, stopped, error, last)


def _lines(text: str) -> Iterator[str]:
    """Lines with anything in them; of one that a progress bar wrote over, what is seen; no control characters."""
    for line in text.split("\n"):
        shown = next((part for part in reversed(line.split("\r")) if part.strip()), "")
        if not shown.isprintable():
            shown = "".join(char if char.isprintable() else " " for char in shown)
        if shown.strip():
            yield shown.rstrip()


def _raised(lines: list[str]) -> str | None:
    """The exception of the last traceback; of several processes the one that was the first to end by one."""
    raised: list[tuple[str | None, str]] = []
    inside = False
    for rank, line in (found.groups() for line in lines if (found := _RANK.match(line))):
        if line.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and not line.startswith(" "):
            inside = False
            if _EXCEPTION.match(line):
                raised.append((rank, line))
    telling = [(rank, line) for rank, line in raised if not any(name in line for name in _LAUNCHERS)]
    if telling:
        return [line for rank, line in telling if rank == telling[0][0]][-1]
    signals = [found[1] for line in lines if (found := _SIGNAL.match(line))]
    return (signals or [line for _, line in raised] or [None])[-1]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
