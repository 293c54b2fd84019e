"""Waits for Slurm jobs of an earlier start that are still ending, without holding up other jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from logging import Logger
from threading import Event
from typing import Any

from reward_ablation.cluster.command import SlurmError
from reward_ablation.cluster.slurm import my_jobs
from reward_ablation.cluster.submission import Reminder

from .slots import PROGRESS_EVERY


def wait_for_ends(
    waiting: Iterable[tuple[str, Any]],
    free: Callable[[list[Any]], None],
    stop: Event,
    every: float,
    logger: Logger,
    unreachable: Callable[[SlurmError], None],
) -> None:
    """Hand over each job once the Slurm job that did its work before has saved the work and ended.

    A node whose processes do not end keeps a Slurm job ending for hours.

    Parameters
    ----------
    waiting : iterable of (str, job)
        The jobs that wait, each with the number of the Slurm job that it waits for.
    free : callable
        Gets the jobs whose Slurm jobs have ended.
    stop : Event
        Ends the waiting; the jobs that still wait are then not handed over.
    every : float
        Seconds between two looks at Slurm's list of jobs.
    logger : Logger
        Is told again and again what is waited for.
    unreachable : callable
        Gets the error if Slurm does not answer.
    """
    waiting, reminder = list(waiting), Reminder(PROGRESS_EVERY)
    while waiting and not stop.is_set():
        if reminder.due():
            numbers = ", ".join(number for number, _ in waiting)
            logger.info(f"Slurm jobs of an earlier start are still ending, and their work waits for it: {numbers}")
        try:
            left = {job.id for job in my_jobs() if job.live}
        except SlurmError as error:
            unreachable(error)
        else:
            if ended := [job for number, job in waiting if number not in left]:
                free(ended)
            waiting = [(number, job) for number, job in waiting if number in left]
        stop.wait(every)
