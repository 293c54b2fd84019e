"""What has become of submitted jobs, by what Slurm lists of them: done, failed, or still to be waited for.

A job that Slurm itself starts again (its node died, or it was preempted) shows its old end for a moment. One whose
end nobody looked at in time leaves Slurm's list without a word. To each of these the answer is patience, and then an
end: no job is waited for that can never end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from reward_ablation.cluster.slurm import WAITING, SlurmJob

#: Ends that Slurm may take back by starting the job again, under the same number.
MAY_RESTART = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})


@dataclass(frozen=True)
class Ended:
    """A job's end.

    Attributes
    ----------
    done : bool
    why : str
        For the user; empty where it was done.
    again : bool
        Another attempt may do better; not where somebody wanted the job to end.
    may_restart : bool
        Slurm might start it again all the same: it is to be cancelled before another takes its place.
    memory : bool
        It had too little of it.
    unknown : bool
        Slurm does not say how it ended.
    by_itself : bool
        The job's own command failed: no limit, no node and nobody else ended it.
    """

    done: bool
    why: str = ""
    again: bool = True
    may_restart: bool = False
    memory: bool = False
    unknown: bool = False
    by_itself: bool = False


@dataclass
class Outcomes:
    """Tells ends of jobs, one look after the other.

    Parameters
    ----------
    patience : float
        Seconds until an end that Slurm may take back, or a job that it does not list, counts as one.
    clock : callable
        Seconds, from whenever on.
    """

    patience: float
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)

    def look(self, number: str, job: SlurmJob | None) -> Ended | None:
        """The end of a job; None as long as it is to be waited for.

        Parameters
        ----------
        number : str
            The job's id.
        job : SlurmJob or None
            As Slurm lists it now; None where it does not.
        """
        if job is not None and job.live and not _stuck(job):
            self._since.pop(number, None)
            return None
        if job is not None and not job.live and job.state not in MAY_RESTART:
            self._since.pop(number, None)
            return _end(job)
        waited = self.clock() - self._since.setdefault(number, self.clock())
        if waited < self.patience:
            return None
        del self._since[number]
        if job is None:
            return Ended(
                False, "has left Slurm's list, which does not say how it ended", may_restart=True, unknown=True
            )
        if job.live:
            if _held(job):
                return Ended(False, f"could not be started ({job.reason})", may_restart=True)
            never = f"will never start: {job.reason}; ask for less, in the site file or the arm's resources"
            return Ended(False, never, again=False, may_restart=True)
        return Ended(done=False, why=f"{_WORDS[job.state]} and Slurm did not start it again", may_restart=True)


#: Reasons for which a job waits for ever: what it asks for is more than one job may have here.
_NEVER = re.compile(
    r"\w+PerJob(Limit)?$|QOSMaxWall\w+|AssocMaxWall\w+|Partition(Time|Node)Limit|BadConstraints|DependencyNeverSatisfied"
    r"|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed",
)
#: And one for which Slurm itself will not start it again, since a node failed to.
_HELD = "launch failed requeued held"


def _stuck(job: SlurmJob) -> bool:
    """Whether a job waits for what will not come."""
    return job.state in WAITING and (_held(job) or _NEVER.match(job.reason) is not None)


def _held(job: SlurmJob) -> bool:
    """Whether Slurm holds a job back since a node failed to start it."""
    return _HELD in job.reason.replace("_", " ")


#: States, as one says them of a job.
_WORDS = {
    "BOOT_FAIL": "found no node that came up",
    "CANCELLED": "was cancelled; the next start goes on with it",
    "DEADLINE": "was ended at its deadline",
    "FAILED": "failed",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "needed more main memory than it had asked for",
    "PREEMPTED": "was preempted",
    "TIMEOUT": "ran into its time limit",
}


def _end(job: SlurmJob) -> Ended:
    if job.state == "COMPLETED":
        return Ended(done=True)
    why = _WORDS.get(job.state, f"ended as {job.state}")
    return Ended(
        done=False,
        why=why,
        again=job.state != "CANCELLED",
        memory=job.state == "OUT_OF_MEMORY",
        by_itself=job.state == "FAILED",
    )
