"""What Slurm's accounting says of jobs that have ended: for how long they had what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from reward_ablation.cluster.command import ask

#: Jobs of one query: a command line has its limits, and so has a database's patience.
AT_ONCE = 500


@dataclass(frozen=True)
class Allocation:
    """What a job had, once: a job that was put back into the queue has one for each time that it ran.

    Attributes
    ----------
    id, name, state : str
    seconds : int
        From its start to its end, without the time that it was suspended.
    cpus : int
    gpus : int or None
        None where Slurm does not say: it counts GPUs only where AccountingStorageTRES has gres/gpu.
    """

    id: str
    name: str
    state: str
    seconds: int
    cpus: int
    gpus: int | None


def allocations(jobs: Iterable[str], cluster: str | None = None, timeout: float = 30.0) -> list[Allocation]:
    """All allocations of jobs, given by id.

    Parameters
    ----------
    cluster : str, optional
        Its name, where it may be another one than this machine's.
    timeout : float
        Seconds to wait for an answer, for each 500 jobs.

    Raises
    ------
    SlurmError
        There is no `sacct` here, or accounting is disabled, or its database does not answer.
    """
    ids = sorted(set(jobs))
    of_cluster = [f"--clusters={cluster}"] if cluster else []
    found = []
    for place in range(0, len(ids), AT_ONCE):
        text = ask(
            *("sacct", "--allocations", "--duplicates", "--noheader", "--parsable2", *of_cluster),
            *(
                "--format=JobIDRaw,State,ElapsedRaw,AllocTRES,JobName",
                f"--jobs={','.join(ids[place : place + AT_ONCE])}",
            ),
            timeout=timeout,
        )
        found += [_allocation(line) for line in text.splitlines() if line.count("|") >= 4]
    return found


def _allocation(line: str) -> Allocation:
    job, state, seconds, tres, name = line.split("|", 4)
    return Allocation(job, name, state, int(seconds or 0), _count("cpu", tres) or 0, _gpus(tres))


def _gpus(tres: str) -> int | None:
    """GPUs of a list such as `cpu=2,gres/gpu:h200=1,gres/gpu=1`, where those of a type are counted a second time."""
    typed = re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d+)", tres)
    count = _count("gres/gpu", tres)
    return sum(map(int, typed)) if count is None and typed else count


def _count(resource: str, tres: str) -> int | None:
    match = re.search(rf"(?:^|,){re.escape(resource)}=(\d+)", tres)
    return int(match[1]) if match else None
