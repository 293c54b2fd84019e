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
import socket
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType

from reward_ablation.system.errors import StudyError

#: What a file system without such locks answers, Lustre without its mount option `flock` among them.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

#: Seconds between two looks at a lock that another process holds.
LOOK_EVERY = 0.5


class Held(Exception):
    """Another process has the lock; the message says which."""


@dataclass
class Lock:
    """A lock that is held until it is released or the process ends.

    Attributes
    ----------
    descriptor : int or None
        The open file; None where the file system has no locks, and once it is released.
    last_change : int or None
        When the last holder took or released the lock, as `last_change` told it before this one took it.
    """

    descriptor: int | None
    last_change: int | None = None

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

    def share(self) -> None:
        """Let others have the lock, too, that take it shared."""
        if self.descriptor is not None:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH)

    def keep_over_exec(self) -> None:
        """Hand the lock to the program that replaces this process by `os.execv`.

        That program does not know of it and holds it until it ends; what it starts by `subprocess` does not get it, but
        may share it.
        """
        self.share()
        if self.descriptor is not None:
            os.set_inheritable(self.descriptor, True)

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def held(path: str | Path, message: str) -> Lock:
    """Take a lock, or refuse to go on where another process has it.

    Parameters
    ----------
    path : str or Path
        The lock's file; made where it is not there.
    message : str
        What to tell where another process has it; `{holder}` stands for that process.

    Raises
    ------
    StudyError
    """
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
        Hold it beside others that hold it shared, such as the processes of one run. One that wants it for itself
        waits for all of them.
    tell_every : float
        Seconds between two lines.
    """
    started = told = time.monotonic()
    first = True
    while True:
        try:
            return take(Path(path), shared)
        except Held as error:
            now = time.monotonic()
            if first or now - told >= tell_every:
                by_now = "" if first else f", {now - started:.0f} s by now"
                print(f"{what}: waiting for {error} to end{by_now}", file=sys.stderr, flush=True)
                first, told = False, now
            time.sleep(LOOK_EVERY)


def take(path: Path, shared: bool = False) -> Lock:
    """Take a lock at once.

    Raises
    ------
    Held
        Another process has it.
    OSError
        The file cannot be made or opened for writing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        used_before = path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # NFS locks only what may be written
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
        os.close(descriptor)  # the folder went while its holder was waited for: what is locked has no name any more
    before = os.fstat(descriptor).st_mtime_ns if used_before else None
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    _write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}) + "\n")
    return Lock(descriptor, before)


def last_change(path: Path) -> int | None:
    """When a lock was last taken, or released in order, in nanoseconds; None where it never was."""
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
    """Write into the lock's file who holds it; of those that share it, who took it last."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    except OSError:  # no space left: the lock holds without a name
        pass


def _holder(descriptor: int) -> str:
    """Who holds a lock, as its file says; closes the file."""
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        holder = json.loads(text)
        return f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
    except (ValueError, KeyError, TypeError):  # not signed yet, or the disk was full
        return "another process"
