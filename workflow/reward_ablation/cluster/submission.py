"""Answers of `sbatch`, messages on them, and the exit status that a job leaves in a file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reward_ablation.system.errors import StudyError

#: Errors of a controller that may nevertheless have accepted the job, or will accept it later.
_LATER = re.compile("timed out|unable to contact|temporarily|try again|no answer within|connection", re.IGNORECASE)

#: Words of the controller in errors on any limit. The limit's name follows, such as `AssocMaxSubmitJobLimit` or
#: `QOSMaxCpuPerJobLimit`.
_LIMITS = "job submit limit"
_LIMIT = re.compile(r"\b[A-Z]\w+(?:Limit|PerAccount|PerUser)\b")


def output_pattern(folder: Path) -> str:
    """The pattern of a job's log for `sbatch --output`. Slurm replaces %j by the job's number, and %% by %."""
    if "\\" in str(folder):  # Slurm then replaces nothing
        raise StudyError(
            f"{folder}: Slurm cannot write logs into a folder whose path has a \\; start the study in another folder"
        )
    return str(folder).replace("%", "%%") + "/%j.log"


def number_in(answer: str) -> str | None:
    """Number of the job in the output of `sbatch --parsable`, to which sites may add text; None where there is none."""
    numbers = re.findall(r"^(\d+)(?:;\S*)?$", answer, flags=re.MULTILINE)
    return numbers[-1] if numbers else None


def may_come_later(error: str) -> bool:
    """Whether a failed submission may succeed later: the controller does not answer, or takes no more jobs now."""
    return bool(_LATER.search(error)) or submission_limit(error) is not None


def submission_limit(error: str) -> str | None:
    """The limit on the number of jobs that made a submission fail; None where Slurm gives another reason.

    For a job that is larger or longer than its quality of service allows, Slurm uses the same words with the name of
    another limit, and never accepts the job. Where Slurm names no limit, we assume the limit on the number of jobs.
    """
    if _LIMITS not in error:
        return None
    limits = _LIMIT.findall(error) or [_LIMITS]
    return next((limit for limit in limits if "submit" in limit.lower()), None)


def limit_text(limit: str, inside: int, done: int, to_go: int) -> str:
    """The message at a limit, with the numbers of Slurm jobs that are submitted, are done, and wait here."""
    message = (
        f"Slurm takes no more jobs now ({limit}): {inside:,} of {inside + done + to_go:,} jobs are in, {done:,} done, "
        f"{to_go:,} to go; they are submitted as others end"
    )
    if limit == _LIMITS:
        message += "; if Slurm has none of your jobs, the job may ask for more than a single job may have"
    return message


@dataclass
class Reminder:
    """Limits how often a message on a lasting condition is given: at once, and then again every `every` seconds."""

    every: float
    clock: Callable[[], float] = time.monotonic
    last: float | None = None

    def due(self) -> bool:
        """Whether to give the message now. After True, the message counts as given."""
        now = self.clock()
        if self.last is not None and now - self.last <= self.every:
            return False
        self.last = now
        return True

    def forget(self) -> None:
        """To be called when the condition is over: the next message is due at once."""
        self.last = None


def verdict(verdicts: Path, number: str) -> int | None:
    """Exit status that the command of job `number` wrote to the folder `verdicts`; None where it wrote none."""
    try:
        return int((verdicts / f"{number}.status").read_text())
    except (OSError, ValueError):
        return None
