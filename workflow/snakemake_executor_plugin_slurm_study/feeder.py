"""A queue of jobs that wait for their submission while Slurm takes no more jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Condition
from typing import Any

from reward_ablation.start.internals import by_priority


class NoRoom(Exception):
    """Slurm takes no more jobs now; the message is the name of the limit."""


class Feeder:
    """Gives jobs by priority to the threads that submit them, and gives none for a while after Slurm refused one.

    After the first refusal, a job is given only once the job before is settled. Otherwise two threads could change the
    order.

    Parameters
    ----------
    again : float
        Seconds after a refusal until a job is given even if none of ours has ended, because other jobs of the user may
        have ended.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(self, again: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit: str | None = None  # the limit for which Slurm takes no job now
        self._again = again
        self._clock = clock
        self._refused = -again
        self._given = 0  # number of jobs that were given and are not settled
        self._one_by_one = False
        self._stopped = False
        self._waiting: list[Any] = []
        self._changed = Condition()

    def add(self, jobs: Iterable[Any]) -> None:
        """Add jobs to the queue. Among jobs of the same priority, the first that was added goes first."""
        with self._changed:
            self._waiting = by_priority([*self._waiting, *jobs])
            self._changed.notify_all()

    def next(self) -> Any | None:
        """Wait until Slurm may take a job, and return the next job; None after `stop`."""
        with self._changed:
            while not self._stopped:
                closed = 0.0 if self.limit is None else self._refused + self._again - self._clock()
                if self._waiting and closed <= 0 and not (self._one_by_one and self._given):
                    self._given += 1
                    return self._waiting.pop(0)
                self._changed.wait(closed if closed > 0 else None)
            return None

    def settle(self) -> None:
        """To be called when a given job has been submitted or has failed."""
        with self._changed:
            self._given -= 1
            self._changed.notify_all()

    def refuse(self, job: Any, limit: str) -> None:
        """Put a job that Slurm refused back into the queue, before all others of its priority."""
        with self._changed:
            self._waiting = by_priority([job, *self._waiting])
            self.limit, self._refused, self._one_by_one = limit, self._clock(), True
            self._given -= 1
            self._changed.notify_all()

    def open(self) -> None:
        """To be called when a job has ended: Slurm may take another job."""
        with self._changed:
            self.limit = None
            self._changed.notify_all()

    def stop(self) -> None:
        """Give no more jobs."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
