"""A job's batch script, what `sbatch` answers to it, and what the job itself says of its end."""

from __future__ import annotations

import re
from pathlib import Path

#: What a controller says that may have taken a job all the same, or takes it later.
_LATER = re.compile("timed out|unable to contact|temporarily|try again|no answer within|connection", re.IGNORECASE)

#: What a controller says of all limits, before the one that is meant: `AssocMaxSubmitJobLimit`, `QOSMaxCpuPerJobLimit`.
_LIMITS = "job submit limit"
_LIMIT = re.compile(r"\b[A-Z]\w+(?:Limit|PerAccount|PerUser)\b")


def batch_script(command: str, verdicts: Path) -> str:
    """The script of a job that runs a command and leaves its exit status in a folder, under the job's number.

    A shell that SIGTERM ends takes the job with it: the trainer must have the time to save that Slurm gives it.
    """
    leave = f'echo $status > "{verdicts}/$SLURM_JOB_ID.status"'
    return f"#!/bin/sh\ntrap : TERM\n{command}\nstatus=$?\n{leave}\nexit $status\n"


def number_in(answer: str) -> str | None:
    """Number of the job in what `sbatch --parsable` prints, which sites like to add words to."""
    found = re.findall(r"^(\d+)(?:;\S*)?$", answer, flags=re.MULTILINE)
    return found[-1] if found else None


def may_come_later(error: str) -> bool:
    """Whether a submission that failed is to be tried again: the controller is away, or takes no more jobs now."""
    return bool(_LATER.search(error)) or submission_limit(error) is not None


def submission_limit(error: str) -> str | None:
    """The limit on the number of jobs for which a submission failed; None where another reason is told.

    A job that is larger or longer than its quality of service allows gets the same words with another limit's name, and
    is never taken. Where no limit is named, we take the number of jobs to be meant.
    """
    if _LIMITS not in error:
        return None
    limits = _LIMIT.findall(error) or [_LIMITS]
    return next((limit for limit in limits if "submit" in limit.lower()), None)


def verdict(verdicts: Path, number: str) -> int | None:
    """Exit status that a job has left; None where it has left none."""
    try:
        return int((verdicts / f"{number}.status").read_text())
    except (OSError, ValueError):
        return None
