"""Slurm jobs with the jobs of Snakemake that they do, and Slurm jobs that an earlier start left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from logging import Logger
from typing import Any

from reward_ablation.cluster.job_names import digest_of, params_in, then_in
from reward_ablation.cluster.slurm import SlurmJob
from reward_ablation.cluster.submission import Reminder, limit_text
from reward_ablation.system.errors import StudyError

#: Seconds between two messages on a lasting condition: a controller that does not answer, a limit that is reached.
PROGRESS_EVERY = 300.0


@dataclass(frozen=True)
class Slot:
    """A Slurm job, and the jobs of Snakemake that it does one after the other, by their names for Slurm."""

    number: str
    names: tuple[str, ...]
    mem_mb: int | None = None  # main memory that was asked for; None for a Slurm job of an earlier start


def slot_of(job: SlurmJob, names: Iterable[str]) -> Slot:
    """The slot of a Slurm job: its first job, and those of the named jobs that it does afterwards."""
    return Slot(job.id, (job.name, *then_in(job.comment, names)))


def taken_over(live: Iterable[SlurmJob], jobs: Mapping[str, Any], logger: Logger) -> dict[str, Slot]:
    """The Slurm jobs of an earlier start that do jobs of this start, by the names of the latter.

    Parameters
    ----------
    live : iterable of SlurmJob
        The study's Slurm jobs that wait or run.
    jobs : mapping
        The jobs of this start, by their names for Slurm.
    logger : Logger
        Gets a warning for each Slurm job that does none of these jobs.

    Raises
    ------
    StudyError
        If a Slurm job uses other code or settings than this start would.
    """
    slots: dict[str, Slot] = {}
    for earlier in live:
        digests = {earlier.name: params_in(earlier.comment), **then_in(earlier.comment, jobs)}
        slot = slot_of(earlier, jobs)
        needed = [name for name in slot.names if name in jobs]
        for name in needed:
            if digests[name] != digest_of(jobs[name].params):
                raise StudyError(
                    f"Slurm job {earlier.id} of an earlier start still works on {words_of(jobs[name])}, with other "
                    f"code or settings; end it with `scancel {earlier.id}`, or wait for it, then run the same command "
                    "again"
                )
        if not needed:
            logger.warning(
                f"warning: Slurm job {earlier.id} of an earlier start ({earlier.name}) makes nothing that this start "
                f"needs; `scancel {earlier.id}` ends it"
            )
        slots |= dict.fromkeys(needed, slot)
    if slots:
        numbers = dict.fromkeys(slot.number for slot in slots.values())
        logger.info(
            f"jobs of an earlier start still wait or run, and are not submitted again: Slurm jobs {', '.join(numbers)}"
        )
    return slots


def check_inputs(
    jobs: Mapping[str, Any],
    slots: Mapping[str, Slot],
    followers: Callable[[Any], list[Any]],
    name: Callable[[Any], str],
) -> None:
    """Refuse a Slurm job of an earlier start that works with files which this start replaces.

    A run may be about to be trained again while the evaluation of its earlier training still waits or runs.

    Parameters
    ----------
    jobs : mapping
        The jobs of this start, by their names for Slurm.
    slots : mapping of str to Slot
        The Slurm jobs that are taken over, by the names of the jobs that they do.
    followers : callable
        Returns the jobs of this start that depend on a job.
    name : callable
        Returns the name of a job for Slurm.

    Raises
    ------
    StudyError
        If there is such a Slurm job.
    """
    for own, job in jobs.items() if slots else ():
        for after in followers(job):
            slot = slots.get(name(after))
            if slot is not None and own not in slot.names:
                raise StudyError(
                    f"Slurm job {slot.number} of an earlier start still works on {words_of(after)}, with files that "
                    f"this start makes again ({words_of(job)}); end it with `scancel {slot.number}`, or wait for it, "
                    "then run the same command again"
                )


def words_of(job: Any) -> str:
    """A job in words: `train mixed-1a2b3c4d/seed0`."""
    return " ".join([job.rule.name, *job.wildcards])


@dataclass
class Progress:
    """Counts the Slurm jobs of a start."""

    total: int
    inside: dict[str, Slot] = field(default_factory=dict)  # submitted jobs that have not ended, by number
    done: int = 0
    given_up: int = 0  # failed jobs that get no further attempt
    reminder: Reminder = field(default_factory=lambda: Reminder(PROGRESS_EVERY))

    def tell(self, limit: str | None, logger: Logger) -> None:
        """Report that Slurm takes no more jobs because of a limit, and later, once, that Slurm has taken all."""
        to_go = self.total - len(self.inside) - self.done - self.given_up
        if limit and to_go > 0 and self.reminder.due():
            logger.warning(f"warning: {limit_text(limit, len(self.inside), self.done, to_go)}")
        elif to_go <= 0 and self.reminder.last is not None:
            logger.info("Slurm has taken all jobs of this start")
            self.reminder.forget()
