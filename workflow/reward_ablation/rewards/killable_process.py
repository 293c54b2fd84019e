"""A process that works for this one. It starts when it is first needed, and can be killed and replaced.

`grading.supervisor` has math-verify in such a process, and `sandbox.supervisor` the server for models' programs. It is
a fresh interpreter, for three reasons. The caller may hold a GPU or threads, which a fork would share.
multiprocessing's spawn would import the caller's main module again. A pool of `concurrent.futures` never ends a worker
that hangs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping


class KillableProcess:
    """A process that runs a script, for all threads of this process. A forked child starts another.

    The script has the other end of `socket` as its standard input, and should end when it is closed.
    """

    #: Seconds in which the script may end by itself once its socket is closed.
    patience = 0.0

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held by the thread that uses the process
        self.pid: int | None = None  # None before the first start and after a kill
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def start(
        self, command: list[str], kind: socket.SocketKind, env: Mapping[str, str], cwd: str | None = None
    ) -> None:
        """Start Python with a command line. All signals are blocked until the script has set what it ignores."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, kind)
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
