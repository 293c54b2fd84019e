"""Locks by which one process, or one run's processes, have a folder or a GPU to themselves until they end or die.

Fetching, training, evaluation, scoring and the supervised start wait for the lock of what they write. The subcommands
`run`, `prune`, `preview` and `import` are refused if another process holds theirs, and so is `trl.track`. `system.gpus`
locks GPUs.

If the mere existence of a file marked a lock, the file would outlive SIGKILL and a power cut, and block the same
command until somebody removed it. These locks are advisory locks (`flock`) on an open file: the kernel frees those of a
dead process. The file stays behind, but means nothing by itself.
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

#: Error numbers of file systems without such locks, such as Lustre without its mount option `flock`.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

T = TypeVar("T")


class Held(Exception):
    """Another process has the lock; the message says which process."""


@dataclass
class Lock:
    """A lock that is held until it is released or the process ends."""

    descriptor: int | None  # the open file; None if the file system has no locks, or the lock is released
    last_change: int | None = None  # what the function `last_change` returned before this holder took the lock

    def __post_init__(self) -> None:
        atexit.register(self.release)
        # Otherwise a forked child, such as a worker that loads data, would keep the lock after this process has died.
        os.register_at_fork(after_in_child=self._close)

    def release(self) -> None:
        """Release the lock for other processes."""
        if self.descriptor is not None:
            _write(self.descriptor, "")
        self._close()

    def _close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def share(self) -> None:
        """Turn the lock into a shared one. It is free for an instant; if another process takes it then, this waits."""
        if self.descriptor is not None:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH)

    def keep_over_exec(self) -> None:
        """Hand the lock over to the program that replaces this process; what that starts can take it as shared."""
        self.share()
        if self.descriptor is not None:
            os.set_inheritable(self.descriptor, True)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def hold_lock(path: str | Path, message: str) -> Lock:
    """Take a lock. If another process has it, raise a StudyError in whose message `{holder}` becomes that process."""
    try:
        return take(Path(path))
    except Held as error:
        raise StudyError(message.replace("{holder}", str(error))) from None


def wait_for(path: str | Path, what: str, shared: bool = False, tell_every: float = 60.0) -> Lock:
    """Take a lock, alone or `shared` as by the processes of one run; wait, and say for whom on stderr now and then."""

    def line(holder: Held, by_now: str) -> str:
        return f"{what}: waiting for {holder} to end{by_now}"

    return run_when_free(lambda: take(Path(path), shared), line, tell_every)


def run_when_free(
    take: Callable[[], T], line: Callable[[Held, str], str], tell_every: float = 60.0, look_every: float = 0.5
) -> T:
    """Call a function again and again until it no longer raises `Held`. Print to stderr which process we wait for.

    `take` takes one lock or several, and its result is returned. `line` returns the line to print, from the `Held` that
    `take` raised and a text with the time waited so far.

    The pauses are random, so that waiting processes do not call at the same times: two processes that each got one of
    two locks would both have to release it, again and again.
    """
    started = time.monotonic()
    last_line: float | None = None
    while True:
        try:
            return take()
        except Held as holder:
            now = time.monotonic()
            if last_line is None or now - last_line >= tell_every:
                by_now = "" if last_line is None else f", {now - started:.0f} s by now"
                print(line(holder, by_now), file=sys.stderr, flush=True)
                last_line = now
        time.sleep(look_every * random.SystemRandom().uniform(0.5, 1))


def take(path: Path, shared: bool = False) -> Lock:
    """Take a lock without waiting for its holder to end.

    Raises `Held` if another process has the lock, and OSError if the lock's file cannot be written. If the file system
    has no such locks, it prints a warning and returns a `Lock` that locks nothing.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)  # each time, because a holder may remove the folder
        used_before = path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # NFS locks only files opened for writing
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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
        os.close(descriptor)  # the folder was removed meanwhile: this file no longer has its name
    before = os.fstat(descriptor).st_mtime_ns if used_before else None
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    _write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}) + "\n")
    return Lock(descriptor, before)


def last_change(path: Path) -> int | None:
    """When a lock was last taken or released in order, or a file written, in nanoseconds since 1970; or None."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the file at this path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write(descriptor: int, text: str) -> None:
    """Write into the lock's file which process holds the lock: the last one, if several share it."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    except OSError:  # no space left: the lock works without its holder's name
        pass


def _holder(descriptor: int) -> str:
    """The holder of a lock, as written in the lock's file. Closes the file."""
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        holder = json.loads(text)
        return f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
    except (ValueError, KeyError, TypeError):  # the holder has not written its name yet, or the disk was full
        return "another process"
