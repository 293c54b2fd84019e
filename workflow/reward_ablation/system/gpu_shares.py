"""Locks by which several runs share a GPU, until it is full.

A run with a whole GPU holds the GPU's lock for itself. Runs that share the GPU hold that lock together, as a shared
lock, and each holds one of the files of its share: `{lock}.2-0` and `{lock}.2-1` are the halves. The files that are
held show how full the GPU is. One process at a time reads and takes them, under a further lock, which it holds only for
an instant.
"""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

from reward_ablation.system.gpu_fractions import RUNS_ON_A_GPU
from reward_ablation.system.locks import Held, Lock, take


def used_share(lock: Path) -> Fraction:
    """The part of a GPU that is taken now by runs which share it."""
    with _alone(lock):
        return sum((share for share, _ in _sharers(lock)), Fraction(0))


def take_share(lock: Path, share: Fraction) -> list[Lock]:
    """Take a share of the GPU of a lock. Raise `Held` if a run has the whole GPU, or too little of it is left."""
    with _alone(lock), ExitStack() as taken:
        try:
            whole = taken.enter_context(take(lock))
        except Held:
            if not (sharers := _sharers(lock)):
                raise
            _check_room(sharers, share)
            whole = taken.enter_context(take(lock, shared=True))
            # Check again: the sharers may have ended meanwhile, and a run with several processes, which share its lock,
            # may have taken the whole GPU. While a sharer lives, it holds the lock, and no run can take the whole GPU.
            _check_room(_sharers(lock), share)
            own = _free_file(lock, share)
        else:
            own = taken.enter_context(_free_file(lock, share))
            whole.share(wait=False)
        taken.pop_all()
        return [whole, own]


def _alone(lock: Path) -> Lock:
    """The lock that a process must hold to read or take shares of a GPU."""
    return take(lock.with_name(f"{lock.name}.claim"), wait=True)


def _check_room(sharers: list[tuple[Fraction, str]], share: Fraction) -> None:
    if not sharers or sum(each for each, _ in sharers) + share > 1:
        raise Held(" and ".join(name for _, name in sharers) or "another process")


def _free_file(lock: Path, share: Fraction) -> Lock:
    """Take a free file of a share. There is one as long as the GPU has room for the share."""
    for number in range(share.denominator):
        try:
            return take(_file(lock, share.denominator, number))
        except Held as holder:
            last = holder
    raise last


def _sharers(lock: Path) -> list[tuple[Fraction, str]]:
    """Share and name of each process that has a share of a GPU."""
    sharers = []
    for runs in RUNS_ON_A_GPU:
        for number in range(runs):
            file = _file(lock, runs, number)
            if file.exists():
                try:
                    take(file).release()
                except Held as holder:
                    sharers.append((Fraction(1, runs), str(holder)))
    return sharers


def _file(lock: Path, runs: int, number: int) -> Path:
    return lock.with_name(f"{lock.name}.{runs}-{number}")
