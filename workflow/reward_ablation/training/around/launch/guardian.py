"""Processes that end with the process that started them, however that process ends.

A server would go on for ever when its supervisor is killed by SIGKILL, which no process sees coming. So a guardian runs
between the two. The supervisor holds the other end of a pipe that the guardian reads: the kernel closes the pipe,
however the supervisor ends, and the guardian then ends all that it has started.

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

#: Of Linux' prctl.
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
    """Run a command as long as the block lasts; all that the command has started is gone when the block has ended.

    Parameters
    ----------
    patience : float
        Seconds between SIGTERM and SIGKILL at the end of the block.
    output : file, optional
        For what the command prints; default: where this process prints.
    keep : sequence of int
        Descriptors of locks, which stay open until the command is gone, should this process be killed.

    Yields
    ------
    Popen
        The guardian. It passes SIGTERM and SIGINT on and ends with the command: by the exit status of the command, or
        by 128 and the number of the signal that has ended the command.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(patience), *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        env=dict(environment),
        start_new_session=True,  # a terminal's Ctrl-C is for this process, which passes it on
        pass_fds=keep,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def adopt() -> None:
    """Become the parent of processes below this one whose own parent has died, in place of the init process."""
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all() -> None:
    """Kill all children, and theirs, which become this process' own one after the other; return when none is left."""
    while True:
        for pid in _children():
            _send(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def main() -> None:
    patience, command = float(sys.argv[1]), sys.argv[2:]
    adopt()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: _send(child.pid, number))
    threading.Thread(target=_end_with_the_pipe, args=(child, patience), daemon=True).start()
    status = child.wait()
    end_all()
    sys.exit(128 - status if status < 0 else status)


def _end_with_the_pipe(child: subprocess.Popen, patience: float) -> None:
    """End the command once the pipe is closed: asked first, killed after so many seconds."""
    while os.read(0, 1):
        pass
    _send(child.pid, signal.SIGTERM)
    try:
        child.wait(patience)
    except subprocess.TimeoutExpired:
        _send(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
