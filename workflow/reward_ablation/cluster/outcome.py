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

#: Reasons for which a job waits for ever: what it asks for is more than one job may have here.
_NEVER = re.compile(
    r"\w+PerJob(Limit)?$|QOSMaxWall\w+|AssocMaxWall\w+|Partition(Time|Node)Limit|BadConstraints|DependencyNeverSatisfied"
    r"|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed",
)
#: The reason of a job that a node failed to start, and that Slurm does not start again by itself.
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
    """A job's end, by Slurm's state; the state is empty where Slurm does not say how the job ended.

    COMPLETED: the work is done. FAILED: the job's own command failed; no limit, no node and nobody else ended it.
    """

    state: str
    why: str = ""  # for the user; empty where the work is done
    again: bool = True  # another attempt may do better; not where somebody wanted the job to end
    may_restart: bool = False  # Slurm might start the job again all the same: cancel it before another takes its place


@dataclass
class Outcomes:
    """Tells ends of jobs, one look after the other."""

    patience: float  # seconds until an end that Slurm may take back, or a job that Slurm does not list, is an end
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)

    def look(self, number: str, job: SlurmJob | None) -> Ended | None:
        """The end of the job of that number; None as long as the job is to be waited for.

        `job` is what Slurm lists now; None where Slurm does not list the job.
        """
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
            return Ended("", "has left Slurm's list, which does not say how it ended", may_restart=True)
        if not job.live:
            return Ended(job.state, f"{_WORDS[job.state]} and Slurm did not start it again", may_restart=True)
        if _held(job):
            return Ended(job.state, f"could not be started ({job.reason})", may_restart=True)
        never = f"will never start: {job.reason}; ask for less, in the site file or the arm's resources"
        return Ended(job.state, never, again=False, may_restart=True)


def _stuck(job: SlurmJob) -> bool:
    """Whether a job waits for what will not come."""
    return job.state in WAITING and (_held(job) or _NEVER.match(job.reason) is not None)


def _held(job: SlurmJob) -> bool:
    return _HELD in job.reason.replace("_", " ")
