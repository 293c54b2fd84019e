"""What the process of an unfinished run has last written: its heartbeat, its log's end, its record of attempts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reward_ablation.start.log_end import LogEnd, read_log_end
from reward_ablation.study.heartbeat import STOPPED, TRAINING, Heartbeat, read_heartbeat
from reward_ablation.study.run_folder import ATTEMPTS

#: Seconds in which a process that has just been started may have written nothing, and one that stops still writes.
BRIEF = 60.0


@dataclass(frozen=True)
class Signs:
    """What one attempt of a run has last written; by default nothing.

    Attributes
    ----------
    beat : Heartbeat or None
    log : LogEnd or None
    """

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
    """Read what the last attempt of a run has written.

    Parameters
    ----------
    work : Path
        The run's work folder.
    log : Path
    attempts : list of dict
        All attempts so far. The last one stands in for the heartbeat, which older versions did not write.
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
