"""Slurm jobs and the jobs of Snakemake that they do, and the Slurm jobs that an earlier start has left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from logging import Logger
from typing import Any

from reward_ablation.cluster.job_names import digest_of, params_in, then_in
from reward_ablation.cluster.slurm import SlurmJob
from reward_ablation.cluster.submission import Reminder, told_of_limit
from reward_ablation.system.errors import StudyError

#: Seconds between two messages on what lasts: a controller that does not answer, a limit that is reached.
TELL_EVERY = 300.0


@dataclass(frozen=True)
class Slot:
    """A Slurm job, and the jobs of Snakemake that it does, one after the other, by their names at Slurm."""

    number: str
    names: tuple[str, ...]


def slot_of(job: SlurmJob, names: Iterable[str]) -> Slot:
    """A Slurm job with those of the named jobs that it does."""
    return Slot(job.id, (job.name, *then_in(job.comment, names)))


def taken_over(live: Iterable[SlurmJob], jobs: Mapping[str, Any], logger: Logger) -> dict[str, Slot]:
    """The Slurm jobs of an earlier start that do jobs of this start, by the names of these.

    Raises
    ------
    StudyError
        A Slurm job does its work with other code or settings than this start would.
    """
    found: dict[str, Slot] = {}
    for earlier in live:
        digests = {earlier.name: params_in(earlier.comment), **then_in(earlier.comment, jobs)}
        slot = slot_of(earlier, jobs)
        mine = [name for name in slot.names if name in jobs]
        for name in mine:
            if digests[name] != digest_of(jobs[name].params):
                raise StudyError(
                    f"Slurm job {earlier.id} of an earlier start still works on {words_of(jobs[name])}, with other "
                    f"code or settings; end it with `scancel {earlier.id}`, or wait for it, then run the same command "
                    "again"
                )
        if not mine:
            logger.warning(
                f"warning: Slurm job {earlier.id} of an earlier start ({earlier.name}) makes nothing that this one "
                f"needs; `scancel {earlier.id}` ends it"
            )
        found |= dict.fromkeys(mine, slot)
    if found:
        numbers = dict.fromkeys(slot.number for slot in found.values())
        logger.info(
            f"jobs of an earlier start still wait or run, and are not submitted again: Slurm jobs {', '.join(numbers)}"
        )
    return found


def words_of(job: Any) -> str:
    """A job as one says it: `train mixed-1a2b3c4d/seed0`."""
    return " ".join([job.rule.name, *job.wildcards])


@dataclass
class Progress:
    """Counts the Slurm jobs of a start."""

    total: int
    inside: dict[str, Slot] = field(default_factory=dict)  # those that are watched, by number
    done: int = 0
    given_up: int = 0
    reminder: Reminder = field(default_factory=lambda: Reminder(TELL_EVERY))

    def tell(self, limit: str | None, logger: Logger) -> None:
        """Tell that Slurm takes no more jobs for a limit, and later once that it has taken all."""
        to_go = self.total - len(self.inside) - self.done - self.given_up
        if limit and to_go > 0 and self.reminder.due():
            logger.warning(f"warning: {told_of_limit(limit, len(self.inside), self.done, to_go)}")
        elif to_go <= 0 and self.reminder.last is not None:
            logger.info("Slurm has taken all jobs of this start")
            self.reminder.forget()
