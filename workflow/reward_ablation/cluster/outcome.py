"""The outcome of the executor's submitted jobs, by Slurm's list of jobs: done, failed, or not ended yet.

A job that Slurm itself starts again (its node died, or the job was preempted) shows its old end for a moment. A job
that ended some time ago disappears from Slurm's list. In both cases we wait for some seconds, and then report an end.
So Snakemake never waits for a job that cannot end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from reward_ablation.cluster.command import LEAST
from reward_ablation.cluster.slurm import WAITING, SlurmJob

#: Ends that Slurm may take back by starting the job again, under the same number.
MAY_RESTART = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})

#: Reasons of a job that waits for ever: it asks for more than one job may have, for too little, or for what is missing.
_NEVER = re.compile(
    r"\w+PerJob(Limit)?$|QOS(MaxWall|Min)\w+|AssocMaxWall\w+|Partition(Time|Node)Limit|BadConstraints|DependencyNeverSatisfied"
    r"|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|ReservationDeleted",
)
#: The reason of a job that a node failed to start. Slurm does not start this job again by itself.
_HELD = "launch failed requeued held"

#: How a job ended, by its state.
_WORDS = {
    "BOOT_FAIL": "found no node that came up",
    "CANCELLED": "was cancelled; the next start goes on with it",
    "COMPLETED": "",
    "DEADLINE": "was ended at its deadline",
    "FAILED": "failed",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "needed more main memory than it had asked for",
    "PREEMPTED": "was preempted",
    "TIMEOUT": "ran into its time limit",
}


@dataclass(frozen=True)
class Ended:
    """A job's end."""

    # Slurm's state; empty where Slurm does not say how the job ended. FAILED: the job's own command failed, and the job
    # was ended by no limit, no node and no person.
    state: str
    why: str = ""  # for the user; empty where the work is done
    again: bool = True  # whether another attempt may succeed; not if somebody cancelled the job, or it can never start
    may_restart: bool = False  # Slurm might still start the job again: cancel it before another job takes its place


@dataclass
class Outcomes:
    """Decides from repeated looks at Slurm's list which jobs have ended."""

    patience: float  # seconds until an end that Slurm may take back counts, or a job that Slurm does not list has ended
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)  # by a job's number: when it first seemed to have ended

    def look(self, number: str, job: SlurmJob | None) -> Ended | None:
        """The end of job `number`; None while the job may still run or start."""
        if job is not None and job.live and not _stuck(job):
            self._since.pop(number, None)
            return None
        if job is not None and not job.live and job.state not in MAY_RESTART:
            self._since.pop(number, None)
            return Ended(job.state, _WORDS.get(job.state, f"ended as {job.state}"), again=job.state != "CANCELLED")
        waited = self.clock() - self._since.setdefault(number, self.clock())
        if waited < self.patience:
            return None
        del self._since[number]
        if job is None:
            return Ended("", "has left Slurm's list, and how it ended is not known", may_restart=True)
        if not job.live:
            return Ended(job.state, f"{_WORDS[job.state]} and Slurm did not start it again", may_restart=True)
        if _held(job):
            return Ended(job.state, f"could not be started ({job.reason})", may_restart=True)
        change = "more" if LEAST.match(job.reason) else "less, or for what there is"
        never = f"will never start: {job.reason}; ask for {change}, in the site file or the arm's resources"
        return Ended(job.state, never, again=False, may_restart=True)


def _stuck(job: SlurmJob) -> bool:
    """Whether a job waits and will never start."""
    return job.state in WAITING and (_held(job) or _NEVER.match(job.reason) is not None)


def _held(job: SlurmJob) -> bool:
    return _HELD in job.reason.replace("_", " ")
