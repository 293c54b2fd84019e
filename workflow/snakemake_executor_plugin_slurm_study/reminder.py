"""When the executor repeats a message on a lasting condition: no answer of the controller, or a limit on jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

#: Seconds between two messages on the same condition.
EVERY = 300.0


@dataclass
class Reminder:
    """Has a message given at once, and then again every `EVERY` seconds."""

    clock: Callable[[], float] = time.monotonic
    last: float | None = None

    def due(self) -> bool:
        """Whether to give the message now. After True, the message counts as given."""
        now = self.clock()
        if self.last is not None and now - self.last < EVERY:
            return False
        self.last = now
        return True

    def forget(self) -> None:
        """To be called when the condition is over: the next message is due at once."""
        self.last = None
