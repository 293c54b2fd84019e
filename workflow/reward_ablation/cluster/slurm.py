"""This user's jobs, as Slurm lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reward_ablation.cluster.command import ask

#: Fields of `squeue`: job id, state, reason, nodes, start, end, name, comment; what separates them is in no name.
_FIELDS = "\x1f".join(["%A", "%T", "%r", "%N", "%S", "%e", "%j", "%k"])

#: States of jobs that may still use the cluster.
PAUSED = ("SUSPENDED", "STOPPED")
WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
ENDING = ("COMPLETING", "STAGE_OUT")
LIVE = frozenset([*WAITING, "RUNNING", "CONFIGURING", "RESIZING", "SIGNALING", *ENDING, *PAUSED])


@dataclass(frozen=True)
class SlurmJob:
    """A job as `squeue` lists it.

    Attributes
    ----------
    id, name, comment : str
    state : str
        In Slurm's long form, such as PENDING or RUNNING.
    reason : str
        Why it waits, or why it ended as it did; "None" where Slurm gives none.
    nodes : str
        As Slurm writes several, such as `n[1-2]`; empty for a job that waits.
    start, end : float or None
        Seconds since 1970; of a job that waits or runs the end is the one of its time limit.
    """

    id: str
    name: str
    state: str
    reason: str
    nodes: str
    start: float | None
    end: float | None
    comment: str = ""

    @property
    def live(self) -> bool:
        """Whether it waits or runs."""
        return self.state in LIVE

    @property
    def ending(self) -> bool:
        """Whether its end is decided, and its processes may still save what they have."""
        return self.state in ENDING


def my_jobs(timeout: float = 20.0) -> list[SlurmJob]:
    """This user's jobs that Slurm still knows: those that wait or run, and those that ended some minutes ago.

    Raises
    ------
    SlurmError
    """
    text = ask("squeue", "--me", "--all", "--states=all", "--noheader", f"--format={_FIELDS}", timeout=timeout)
    return [_job(line) for line in text.splitlines() if line.count("\x1f") == _FIELDS.count("\x1f")]


def is_live(number: str) -> bool:
    """Whether a job that no list shows waits or runs all the same.

    Raises
    ------
    SlurmError
        Slurm does not know it, or does not answer.
    """
    told = re.search(r"JobState=(\w+)", ask("scontrol", "show", "job", number))
    return told is not None and told[1] in LIVE


def _job(line: str) -> SlurmJob:
    id_, state, reason, nodes, start, end, name, comment = line.split("\x1f")
    return SlurmJob(id_, name, state, reason, nodes, _seconds(start), _seconds(end), comment)


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() else None
