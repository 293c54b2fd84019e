"""The last signs of an unfinished run's process: its heartbeat, the end of its log, its record of attempts.

The status tells by them whether a run works, stopped or failed. A start and a preview read the ends of logs here to
name the errors of their failed jobs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reward_ablation.study.heartbeat import Heartbeat, read_heartbeat
from reward_ablation.study.run_folder import ATTEMPTS
from reward_ablation.system.errors import ERROR, UNEXPECTED
from reward_ablation.system.strict_text import load_json

#: Seconds for which a process that just started may write nothing, and for which a process that stops may still write.
BRIEF = 60.0
#: Bytes that are read from the end of a log: some hundred lines.
TAIL = 64 << 10


@dataclass(frozen=True)
class LogEnd:
    changed: float  # time of the last write to the log, in seconds since 1970
    error: str = ""  # the error that the command ended with; empty where the log has none
    unexpected: bool = False  # whether the error is an exception that the command did not foresee
    stopped: bool = False  # whether training reported that it stopped in order. Errors before this report do not count.
    last: str = ""  # the last line that has a letter or digit


@dataclass(frozen=True)
class Signs:
    """The last signs of one attempt of a run; by default none."""

    beat: Heartbeat | None = None
    log: LogEnd | None = None

    @property
    def at(self) -> float:
        """Time of the process's last sign, in seconds since 1970; 0 where the process wrote nothing."""
        return max(self.log.changed if self.log else 0.0, self.beat.at if self.beat else 0.0)

    @property
    def stopped(self) -> bool:
        return self.beat is not None and self.beat.stopped

    @property
    def error(self) -> str:
        """The error that the process ended with; empty where there is none."""
        if self.log is None:
            return ""
        # When one process stops on purpose, the other processes may crash. This crash is not the run's error.
        lost_a_peer = self.log.stopped or (
            self.stopped and self.log.changed - (self.beat.at if self.beat else 0.0) < BRIEF
        )
        return "" if lost_a_peer and self.log.unexpected else self.log.error

    @property
    def last_line(self) -> str:
        return self.log.last if self.log else ""


NO_SIGNS = Signs()


def read_signs(work: Path, log: Path) -> Signs:
    """Read the signs of a run's last attempt from its `work` folder and its log."""
    end, beat = read_log_end(log), read_heartbeat(work)
    if beat and end and not end.last and beat.at < end.changed:
        beat = None  # the heartbeat of an earlier attempt: each attempt begins with an empty log
    return Signs(beat, end)


def read_attempts(work: Path) -> list[dict[str, Any]]:
    """The attempts of an unfinished run; empty where their record cannot be read."""
    try:
        attempts = load_json((work / ATTEMPTS).read_bytes())
    except (OSError, ValueError):
        return []
    return [attempt for attempt in attempts if isinstance(attempt, dict)] if isinstance(attempts, list) else []


def read_log_end(path: Path) -> LogEnd | None:
    """Read the end of a log; None where there is no log."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(max(0, status.st_size - TAIL))
            text = file.read(TAIL).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return None
    # A progress bar overwrites its line, so only the line's last part is visible. Control characters become spaces.
    visible = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    printable = ["".join(char if char.isprintable() else " " for char in line).rstrip() for line in visible]
    lines = [line for line in printable if any(char.isalnum() for char in line)]
    after_stop = _index_after(lines, "train: stopped")
    errors = [line for line in lines[after_stop:] if line.startswith(ERROR)]
    error = errors[-1] if errors else _unexpected_error(lines[after_stop:])
    last = lines[-1].strip() if lines else ""
    return LogEnd(status.st_mtime, error, not errors and bool(error), after_stop > 0, last)


def _index_after(lines: list[str], *starts: str) -> int:
    """Index after the last line that begins with one of `starts`; 0 where no line does."""
    return max((number for number, line in enumerate(lines, 1) if line.startswith(starts)), default=0)


def _unexpected_error(lines: list[str]) -> str:
    """The first unexpected error, or empty. Later ones come from the run's other processes, which have lost a peer."""
    if errors := [line.removeprefix(UNEXPECTED) for line in lines if line.startswith(UNEXPECTED)]:
        return errors[0]
    # Without such a line, Python failed before the command began.
    # An exception before a line of progress was caught, because training went on.
    later = lines[_index_after(lines, "step ", "train: ") :]
    return later[-1] if any("Traceback (most recent call last)" in line for line in later) else ""
