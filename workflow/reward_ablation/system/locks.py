"""One process at a time in a folder: locks that the kernel frees when their holder dies, however it dies.

A file that marks a lock outlives SIGKILL and a power cut, and then the same command does not go on until somebody
takes it away. These are advisory locks (`flock`) on an open file; the file stays behind and means nothing by itself.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import json
import os
import random
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from reward_ablation.system.errors import StudyError

#: What a file system without such locks answers, Lustre without its mount option `flock` among them.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

T = TypeVar("T")


class Held(Exception):
    """Another process has the lock; the message says which process."""


@dataclass
class Lock:
    """A lock that is held until it is released or the process ends."""

    descriptor: int | None  # the open file; None where the file system has no locks, and once the lock is released
    last_change: int | None = None  # what the function `last_change` returned before this holder took the lock

    def __post_init__(self) -> None:
        atexit.register(self.release)
        # A forked child, such as a worker that loads data, would hold the lock on when this process is dead.
        os.register_at_fork(after_in_child=self._close)

    def release(self) -> None:
        """Let others have the lock."""
        if self.descriptor is not None:
            _write(self.descriptor, "")
        self._close()

    def _close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def share(self, wait: bool = True) -> None:
        """Let other processes take the lock, too, as a shared lock.

        The lock is free for an instant. Where another process takes it then, this raises `Held`, or with `wait` waits.
        """
        if self.descriptor is not None:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Held("another process") from None

    def keep_over_exec(self) -> None:
        """Hand the lock to the program that replaces this process by `os.execv`, and holds the lock until it ends.

        Processes that the program starts by `subprocess` do not get the lock, but may share it.
        """
        self.share()
        if self.descriptor is not None:
            os.set_inheritable(self.descriptor, True)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def held(path: str | Path, message: str) -> Lock:
    """Take a lock, or raise a StudyError where another process has it; `{holder}` in the message is that process."""
    try:
        return take(Path(path))
    except Held as error:
        raise StudyError(message.replace("{holder}", str(error))) from None


def wait_for(path: str | Path, what: str, shared: bool = False, tell_every: float = 60.0) -> Lock:
    """Take a lock, and wait for it where another process has it: a line on stderr says for whom, again each minute.

    Parameters
    ----------
    path : str or Path
        The lock's file; made where it is not there.
    what : str
        What the lock is on, for the line.
    shared : bool
        Hold the lock beside others that hold it shared, such as the processes of one run. A process that wants the
        lock for itself waits for all of them.
    tell_every : float
        Seconds between two lines.
    """

    def line(holder: Held, by_now: str) -> str:
        return f"{what}: waiting for {holder} to end{by_now}"

    return when_free(lambda: take(Path(path), shared), line, tell_every)


def when_free(
    take: Callable[[], T], line: Callable[[Held, str], str], tell_every: float = 60.0, look_every: float = 0.5
) -> T:
    """Call a function again and again until it no longer raises `Held`, and tell on stderr who is waited for.

    Parameters
    ----------
    take : callable
        Takes one lock or several.
    line : callable
        The line to print, from what `take` has raised and a text that says how long this has waited.
    tell_every, look_every : float
        Seconds between two lines, and at most between two calls. Waiting processes keep out of step: where two
        processes each get one of two locks, both have to let go of it.
    """
    started = time.monotonic()
    told: float | None = None
    while True:
        try:
            return take()
        except Held as holder:
            now = time.monotonic()
            if told is None or now - told >= tell_every:
                by_now = "" if told is None else f", {now - started:.0f} s by now"
                print(line(holder, by_now), file=sys.stderr, flush=True)
                told = now
        time.sleep(look_every * random.SystemRandom().uniform(0.5, 1))


def take(path: Path, shared: bool = False, wait: bool = False) -> Lock:
    """Take a lock at once; raises `Held` where another process has it, and OSError where the file cannot be written.

    With `wait`, a lock that others hold for an instant is waited for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        used_before = path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # NFS locks only what may be written
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Held(_holder(descriptor)) from None
        except OSError as error:
            os.close(descriptor)
            if error.errno not in NO_LOCKS:
                raise
            print(
                f"warning: {path}: this file system has no file locks ({error.strerror}): nothing here keeps two "
                "processes apart",
                file=sys.stderr,
                flush=True,
            )
            return Lock(None, last_change(path) if used_before else None)
        if _is_at(path, descriptor):
            break
        os.close(descriptor)  # the folder went while its holder was waited for: what is locked has no name any more
    before = os.fstat(descriptor).st_mtime_ns if used_before else None
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    _write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}) + "\n")
    return Lock(descriptor, before)


def last_change(path: Path) -> int | None:
    """When a lock was last taken, or released in order, in nanoseconds; None for a lock that was never taken."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write(descriptor: int, text: str) -> None:
    """Write into the lock's file who holds the lock; among several, who took it last."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    except OSError:  # no space left: the lock holds without a name
        pass


def _holder(descriptor: int) -> str:
    """The holder of a lock, as the lock's file says; closes the file."""
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        holder = json.loads(text)
        return f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
    except (ValueError, KeyError, TypeError):  # not signed yet, or the disk was full
        return "another process"
