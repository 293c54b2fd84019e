"""What `sbatch` answers and the user is told of it, and what a job says of its own end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reward_ablation.system.errors import StudyError

#: What a controller says that may have taken a job all the same, or takes it later.
_LATER = re.compile("timed out|unable to contact|temporarily|try again|no answer within|connection", re.IGNORECASE)

#: What a controller says of all limits, before the one that is meant: `AssocMaxSubmitJobLimit`, `QOSMaxCpuPerJobLimit`.
_LIMITS = "job submit limit"
_LIMIT = re.compile(r"\b[A-Z]\w+(?:Limit|PerAccount|PerUser)\b")


def output_pattern(folder: Path) -> str:
    """The log of a job as `sbatch --output` takes it: Slurm writes the job's number for %j, and % for %%."""
    if "\\" in str(folder):  # Slurm then replaces nothing
        raise StudyError(f"{folder}: Slurm writes no log into a folder whose path has a \\; start the study elsewhere")
    return str(folder).replace("%", "%%") + "/%j.log"


def number_in(answer: str) -> str | None:
    """Number of the job in what `sbatch --parsable` prints, which sites like to add words to."""
    found = re.findall(r"^(\d+)(?:;\S*)?$", answer, flags=re.MULTILINE)
    return found[-1] if found else None


def may_come_later(error: str) -> bool:
    """Whether a submission that failed is to be tried again: the controller is away, or takes no more jobs now."""
    return bool(_LATER.search(error)) or submission_limit(error) is not None


def submission_limit(error: str) -> str | None:
    """The limit on the number of jobs for which a submission failed; None where Slurm gives another reason.

    A job that is larger or longer than its quality of service allows gets the same words with another limit's name, and
    is never taken. Where no limit is named, we assume the one on the number of jobs.
    """
    if _LIMITS not in error:
        return None
    limits = _LIMIT.findall(error) or [_LIMITS]
    return next((limit for limit in limits if "submit" in limit.lower()), None)


def told_of_limit(limit: str, inside: int, done: int, to_go: int) -> str:
    """The message at a limit, by the numbers of Slurm jobs that are there, are done, and wait here."""
    told = (
        f"Slurm takes no more jobs now ({limit}): {inside:,} of {inside + done + to_go:,} jobs are in, {done:,} done, "
        f"{to_go:,} to go; they are submitted as others end"
    )
    if limit == _LIMITS:
        told += "; if none of your jobs is there, the job may ask for more than one job may have"
    return told


@dataclass
class Reminder:
    """Says when a message on what lasts is due: at once, and again every so many seconds."""

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


def verdict(verdicts: Path, number: str) -> int | None:
    """Exit status that a job's command has left in this folder; None where it has left none."""
    try:
        return int((verdicts / f"{number}.status").read_text())
    except (OSError, ValueError):
        return None
