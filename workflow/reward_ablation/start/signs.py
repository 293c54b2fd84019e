"""What the process of an unfinished run has last written: its heartbeat, its log's end, its record of attempts."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reward_ablation.study.heartbeat import STOPPED, TRAINING, Heartbeat, read_heartbeat
from reward_ablation.study.run_folder import ATTEMPTS
from reward_ablation.system.errors import ERROR, UNEXPECTED

#: Seconds in which a process that has just been started may have written nothing, and one that stops still writes.
BRIEF = 60.0

#: Bytes at the end of a log that are read: some hundred lines.
TAIL = 64 << 10


@dataclass(frozen=True)
class LogEnd:
    """The end of a log."""

    #: When the log was last written to, in seconds since 1970.
    changed: float
    #: The error that the command ended with; empty where the log has none.
    error: str = ""
    #: Whether that is an exception that the command did not foresee.
    unexpected: bool = False
    #: Whether the training said that it had stopped in order. Errors before that line do not count.
    stopped: bool = False
    #: The last line with a letter or digit in it.
    last: str = ""


@dataclass(frozen=True)
class Signs:
    """What one attempt of a run has last written; by default nothing."""

    beat: Heartbeat | None = None
    log: LogEnd | None = None

    @property
    def at(self) -> float:
        """When the process last wrote anything, in seconds since 1970; 0 where it has written nothing."""
        return max(self.log.changed if self.log else 0.0, self.beat.at if self.beat else 0.0)

    @property
    def stopped(self) -> bool:
        """Whether the process has stopped in order."""
        return self.beat is not None and self.beat.stopped

    @property
    def error(self) -> str:
        """The error that the process ended with; empty where there is none."""
        if self.log is None:
            return ""
        # When one process stops on purpose, the others may crash because they lost it. That is not the run's error.
        lost_a_peer = self.log.stopped or (
            self.stopped and self.log.changed - (self.beat.at if self.beat else 0.0) < BRIEF
        )
        return "" if lost_a_peer and self.log.unexpected else self.log.error

    @property
    def last_line(self) -> str:
        """The last line of the log."""
        return self.log.last if self.log else ""


NO_SIGNS = Signs()


def read_signs(work: Path, log: Path, attempts: list[dict[str, Any]]) -> Signs:
    """Read what the last attempt of a run has written, in its `work` folder and its log.

    The last of all `attempts` stands in for the heartbeat, which older versions did not write.
    """
    end = read_log_end(log)
    beat = read_heartbeat(work) or _beat_of(attempts, end)
    if beat and end and not end.last and beat.at < end.changed:
        beat = None  # an earlier attempt's: each attempt begins an empty log
    return Signs(beat, end)


def read_attempts(work: Path) -> list[dict[str, Any]]:
    """The attempts of an unfinished run; none where that cannot be read."""
    try:
        attempts = json.loads((work / ATTEMPTS).read_bytes())
    except (OSError, ValueError):
        return []
    return [attempt for attempt in attempts if isinstance(attempt, dict)] if isinstance(attempts, list) else []


def _beat_of(attempts: list[dict[str, Any]], log: LogEnd | None) -> Heartbeat | None:
    """What the record of the last attempt says; None where there is none."""
    try:
        last = attempts[-1]
        doing = STOPPED if last.get("ended") else TRAINING
        return Heartbeat(at=log.changed if log else 0.0, doing=doing, step=last["to_step"], why=last.get("ended") or "")
    except (IndexError, KeyError, ValueError):
        return None


def read_log_end(path: Path) -> LogEnd | None:
    """Read the end of a log; None where there is no log."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(max(0, status.st_size - TAIL))
            text = file.read(TAIL).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return None
    # A progress bar writes over its line: the last part is seen. Control characters are left out.
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    printable = ["".join(char if char.isprintable() else " " for char in line).rstrip() for line in shown]
    lines = [line for line in printable if any(char.isalnum() for char in line)]
    stopped = _after(lines, "train: stopped")
    counted = lines[stopped:]
    errors = [line for line in counted if line.startswith(ERROR)]
    error = errors[-1] if errors else _unexpected(counted)
    last = lines[-1].strip() if lines else ""
    return LogEnd(status.st_mtime, error, not errors and bool(error), stopped > 0, last)


def _after(lines: list[str], *starts: str) -> int:
    """Number of the line behind the last one that starts so; 0 where none does."""
    return max((number for number, line in enumerate(lines, 1) if line.startswith(starts)), default=0)


def _unexpected(lines: list[str]) -> str:
    """The first unexpected error: the other processes of a run fail later, since they have lost a peer."""
    if found := [line.removeprefix(UNEXPECTED) for line in lines if line.startswith(UNEXPECTED)]:
        return found[0]
    # Python failed before the command began, or an older version of this workflow wrote the log.
    # Where training went on, somebody has caught the exception.
    later = lines[_after(lines, "step ", "train: ") :]
    return later[-1] if any("Traceback (most recent call last)" in line for line in later) else ""
