"""Slurm jobs with the jobs of Snakemake that they do, and Slurm jobs that an earlier start left behind.

Before its first submission, the executor takes over what still fits this start, so that no work is done twice. It ends
with an error where an earlier job works on what this start would make in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from logging import Logger
from typing import Any

from reward_ablation.cluster.job_names import digest_of, params_in, then_in
from reward_ablation.cluster.slurm import SlurmJob
from reward_ablation.system.errors import StudyError


@dataclass(frozen=True)
class Slot:
    """A Slurm job, and the jobs of Snakemake that it does one after the other, by their names for Slurm."""

    number: str
    names: tuple[str, ...]
    mem_mb: int | None = None  # main memory that was asked for; None for a Slurm job of an earlier start


def followers_of(jobs: Iterable[Any]) -> Callable[[Any], list[Any]]:
    """Which of Snakemake's `jobs` need an output of a job: by output, then in the order of rules and wildcards."""
    needing: dict[str, list[Any]] = {}
    for job in sorted(jobs, key=lambda job: (job.rule.name, *job.wildcards)):
        for file in dict.fromkeys(job.input):
            needing.setdefault(file, []).append(job)
    return lambda job: list(dict.fromkeys(after for file in job.output for after in needing.get(file, ())))


def slot_of(job: SlurmJob, names: Iterable[str]) -> Slot:
    """The slot of a Slurm job: its first job, and the jobs among `names` that it does afterwards."""
    return Slot(job.id, (job.name, *then_in(job.comment, names)))


def taken_over(live: Iterable[SlurmJob], jobs: Mapping[str, Any], logger: Logger) -> dict[str, Slot]:
    """The Slurm jobs of an earlier start that do jobs of this start, by the names of this start's jobs."""
    slots: dict[str, Slot] = {}
    for earlier in live:
        digests = {earlier.name: params_in(earlier.comment), **then_in(earlier.comment, jobs)}
        slot = slot_of(earlier, jobs)
        needed = [name for name in slot.names if name in jobs]
        for name in needed:
            if digests[name] != digest_of(jobs[name].params):
                raise StudyError(_still_works(slot, jobs[name], "with other code or settings"))
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
    """Refuse a Slurm job of an earlier start that evaluates a run which this start trains again."""
    for own, job in jobs.items() if slots else ():
        for after in followers(job):
            slot = slots.get(name(after))
            if slot is not None and own not in slot.names:
                raise StudyError(_still_works(slot, after, f"with files that this start makes again ({words_of(job)})"))


def _still_works(slot: Slot, job: Any, how: str) -> str:
    return (
        f"Slurm job {slot.number} of an earlier start still works on {words_of(job)}, {how}; end it with `scancel "
        f"{slot.number}`, or wait for it, then run the same command again"
    )


def words_of(job: Any) -> str:
    """A job in words: `train mixed-1a2b3c4d/seed0`."""
    return " ".join([job.rule.name, *job.wildcards])
