"""A process that works for this one. It starts when it is first needed, and can be killed and replaced.

`grading.math_worker` has math-verify in such a process, and `sandbox.supervisor` the server for models' programs. It is
a fresh interpreter, for three reasons. The caller may hold a GPU or threads, which a fork would share.
multiprocessing's spawn would import the caller's main module again. A pool of `concurrent.futures` never ends a worker
that hangs.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class KillableProcess:
    """A process that runs a script, for all threads of this process. A forked child starts another.

    The script has the other end of `socket` as its standard input, and should end when it is closed. It sends JSON
    lines: the first when it is ready, and {"failed": reason} if it cannot do its work.
    """

    name: str  # in messages
    start_seconds = 120.0  # imports on a busy network file system
    reply_seconds: float
    #: Seconds in which the script may end by itself once its socket is closed.
    patience = 0.0

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held by the thread that uses the process
        self.pid: int | None = None  # None before the first start and after a kill
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def launch(self) -> None:
        """Start the process, by `start`."""
        raise NotImplementedError

    def start(self, command: list[str], kind: socket.SocketKind, env: Mapping[str, str], cwd: str | None = None) -> Any:
        """Start Python with a command line, and return its first message; RuntimeError if none comes."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self._received = b""
        # until the script has set which signals it ignores
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._popen = subprocess.Popen(
                # -P: no module beside the script or in the working folder can take the place of another
                [sys.executable, "-P", *command],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                cwd=cwd,
                start_new_session=True,  # an interrupt at the terminal reaches the parent alone; makes a group to kill
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self.pid = self._popen.pid
        try:
            return self.receive(self.start_seconds)[0]
        except (ConnectionError, TimeoutError):
            raise RuntimeError(f"{self.name} did not start within {self.start_seconds:g} s, or ended") from None

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Start the process if it does not run. If the process ends or stalls within the block, the block ends there.

        Any error kills the process: replies that are left would answer the next question.
        """
        try:
            if self.pid is None:
                self.launch()
            yield
        except BaseException as error:  # also an interrupt
            self.kill()
            if not isinstance(error, ConnectionError | TimeoutError):
                raise

    def send(self, message: Any, files: Sequence[int] = ()) -> None:
        """Send a message with open files; TimeoutError if the process does not take it."""
        self.socket.settimeout(self.reply_seconds)
        data = json.dumps(message).encode() + b"\n"
        if rest := data[socket.send_fds(self.socket, [data], files) :]:  # an empty packet would be an end
            self.socket.sendall(rest)

    def receive(self, seconds: float | None = None) -> tuple[Any, list[int]]:
        """A message and its file, if any; TimeoutError if it takes too long, ConnectionError if the process ended."""
        self.socket.settimeout(self.reply_seconds if seconds is None else seconds)
        files: list[int] = []
        while b"\n" not in self._received:
            part, files, _, _ = socket.recv_fds(self.socket, 1 << 16, 1)
            if not part:
                raise ConnectionError(f"{self.name} has ended")
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        message = json.loads(line)
        if "failed" in message:
            raise RuntimeError(f"{self.name} failed: {message['failed']}")
        return message, files

    def close(self) -> None:
        """End the process; the next use starts another."""
        with self.lock:
            self.kill()

    def kill(self) -> None:
        """End the process and all that it started."""
        if self.pid is None:
            return
        self.socket.close()
        if self.patience:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(self.patience)
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()
        self.pid = None

    def _forget(self) -> None:
        """In a forked child: leave the process to the parent, and close the copy of its socket."""
        self.lock = threading.Lock()
        if self.pid is not None:
            self.socket.close()
        self.pid = None
