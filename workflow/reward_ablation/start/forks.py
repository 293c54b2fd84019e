"""Runs commands in forks of one process that has already done their imports.

Importing pandas and Matplotlib takes longer than making most tables and figures. So one process starts with the first
command, imports each command's module once, and forks for each command. The process ends with its Snakemake.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

#: Modules that pandas, PyArrow and Matplotlib import on first use. They are imported before the forks instead.
LATE = (
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
)


class Forks:
    """Runs commands in forks; several threads may call `run` at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def run(self, module: str, arguments: Sequence[str], log: str) -> None:
        """Run `python -m MODULE ARGUMENTS`, with the output in the file `log`.

        `module` is the dotted name of the module itself, such as `reward_ablation.figures.__main__`. Raises
        CalledProcessError if the command fails.
        """
        command = [sys.executable, "-m", module, *map(str, arguments)]
        with Path(log).open("wb") as file:
            if sys.platform == "linux":
                status = self._forked(command[2:], file.fileno())
            else:  # the system libraries of macOS do not work in forks
                status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode
        if status:
            raise subprocess.CalledProcessError(status, shlex.join(command))

    def _forked(self, words: list[str], log: int) -> int:
        """Run a command in a fork; its exit status as in `subprocess`, negative for a signal."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._lock:
                socket.send_fds(self._started(), [b"\0"], [theirs.fileno(), log])
            with suppress(OSError):  # the process was killed
                ours.sendall(json.dumps(words).encode())
                ours.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                return int(ours.makefile().read() or -signal.SIGKILL)
        return -signal.SIGKILL

    def _started(self) -> socket.socket:
        """The socket that the forking process reads requests from. Starts this process if it does not run."""
        if self._server is None or self._requests is None or self._server.poll() is not None:
            self._requests, theirs = socket.socketpair()
            with theirs:
                self._server = subprocess.Popen([sys.executable, "-m", __name__], stdin=theirs.fileno())
        return self._requests


def serve(requests: socket.socket) -> None:
    """Fork for each request, until the other end of the socket is closed."""
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the commands, not this process
    while files := socket.recv_fds(requests, 1, 2)[1]:
        reply, log = socket.socket(fileno=files[0]), files[1]
        with reply.makefile() as request:
            module, *arguments = json.loads(request.read())
        with suppress(Exception):  # the command itself will report the error
            import_with_late_parts(module)
        if os.fork() == 0:
            if command := os.fork():
                report(command, reply)
            reply.close()
            signal.signal(signal.SIGINT, on_interrupt)
            return run_module(module, arguments, log)
        reply.close()
        os.close(log)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # forks that have ended
                pass


def import_with_late_parts(module: str) -> None:
    """Import a module, and those of the modules `LATE` whose library it uses."""
    import_module(module)
    for late in LATE:
        if late.partition(".")[0] in sys.modules:
            import_module(late)


def report(command: int, reply: socket.socket) -> NoReturn:
    """Wait for the end of the process `command`, and send its exit status to the Snakemake that asked."""
    _, status = os.waitpid(command, 0)
    with suppress(OSError):  # this Snakemake was killed
        reply.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def run_module(module: str, arguments: list[str], log: int) -> None:
    """Run a module in this process as `python -m` would, with its output in the file `log`."""
    for stream, file in enumerate([os.open(os.devnull, os.O_RDONLY), log, log]):
        os.dup2(file, stream)
    sys.argv[1:] = arguments
    sys.modules.pop(module, None)  # runpy imports the module again, as the main module
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(socket.socket(fileno=sys.stdin.fileno()))
