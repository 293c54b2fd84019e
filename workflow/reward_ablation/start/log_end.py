"""The end of a log: when it was written, its last line, and the error that the command ended with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from reward_ablation.system.errors import ERROR, UNEXPECTED

#: Bytes at the end of a log that are read: some hundred lines.
TAIL = 64 << 10


@dataclass(frozen=True)
class LogEnd:
    """The end of a log.

    Attributes
    ----------
    changed : float
        When the log was last written to, in seconds since 1970.
    error : str
        The error that the command ended with; empty where the log has none.
    unexpected : bool
        Whether that is an exception that the command did not foresee.
    stopped : bool
        Whether the training said that it had stopped in order. Errors before that line do not count.
    last : str
        The last line with a letter or digit in it.
    """

    changed: float
    error: str = ""
    unexpected: bool = False
    stopped: bool = False
    last: str = ""


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
