"""Messages on what lasts: once at the beginning, and again from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Reminder:
    """Says when a message is due.

    Parameters
    ----------
    every : float
        Seconds between two messages.
    clock : callable
        Seconds, from whenever on.
    """

    every: float
    clock: Callable[[], float] = time.monotonic
    last: float | None = None

    def due(self) -> bool:
        """Whether to give the message now; True counts as given."""
        now = self.clock()
        if self.last is not None and now - self.last <= self.every:
            return False
        self.last = now
        return True

    def forget(self) -> None:
        """What the message is on is over: the next message is due at once."""
        self.last = None
