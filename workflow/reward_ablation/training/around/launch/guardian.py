"""Processes that end with the process that started them, however that process ends: vLLM's server and the training.

`vllm_server` supervises both. If it is killed by SIGKILL, it cannot end the server. A guardian therefore runs between
the two. It reads from a pipe whose other end the supervisor holds. However the supervisor ends, the kernel closes the
pipe, and the guardian then ends all processes below itself.

python -m reward_ablation.training.around.launch.guardian SECONDS COMMAND...
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

#: Signals that ask a process to save and end. The guardian passes them on to its command.
STOPS = (signal.SIGTERM, signal.SIGINT)
#: Constants of Linux's prctl.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

prctl = ctypes.CDLL(None).prctl


@contextmanager
def guarded(
    command: Sequence[str],
    patience: float,
    environment: Mapping[str, str],
    output: IO[bytes] | None = None,
    keep: Sequence[int] = (),
) -> Iterator[subprocess.Popen]:
    """Run a command as long as the block lasts. After the block, all processes that the command started have ended.

    `patience` is the number of seconds between SIGTERM and SIGKILL at the end of the block. `keep` has descriptors of
    locks. They stay open until the command has ended, even if this process is killed.

    Yields the guardian. It passes SIGTERM and SIGINT on to the command. Its exit status is the command's, or 128 plus
    the number of the signal that ended the command.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(patience), *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        env=dict(environment),
        start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which passes it on
        pass_fds=keep,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def adopt() -> None:
    """Let this process, instead of init, become the parent of orphaned processes below it."""
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all() -> None:
    """Kill all descendants, also (after `adopt`) children of a child that dies; return when none is left."""
    while True:
        for pid in _children():
            _send(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended meanwhile
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def main() -> None:
    patience, command = float(sys.argv[1]), sys.argv[2:]
    adopt()
    # A signal waits until the handlers are in place: its default would end the guardian, and the command unasked.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_begin_command)
    for number in STOPS:
        signal.signal(number, lambda number, frame: _send(child.pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_end_with_the_pipe, args=(child, patience), daemon=True).start()
    status = child.wait()
    end_all()
    sys.exit(128 - status if status < 0 else status)


def _begin_command() -> None:
    """Let the command, which is about to run, end with the guardian and get signals."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def _end_with_the_pipe(child: subprocess.Popen, patience: float) -> None:
    """Once the pipe is closed, ask the command to end. Kill it after `patience` seconds."""
    while os.read(0, 1):
        pass
    _send(child.pid, signal.SIGTERM)
    try:
        child.wait(patience)
    except subprocess.TimeoutExpired:
        _send(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
