"""Run a command, and end all that it has started when it ends, or when whoever started this is gone.

A server would go on for ever when its supervisor is killed by SIGKILL, which no process sees coming. The supervisor
holds the other end of the pipe that this reads: the kernel closes it, however the supervisor ends.

python -m reward_ablation.training.launch.guardian SECONDS COMMAND...
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: Of Linux' prctl.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    patience, command = float(sys.argv[1]), sys.argv[2:]
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what the command leaves behind becomes this process' own
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: _signal(child.pid, number))
    threading.Thread(target=_end_with_the_pipe, args=(child, patience), daemon=True).start()
    status = child.wait()
    _end_all()
    sys.exit(128 - status if status < 0 else status)


def _end_with_the_pipe(child: subprocess.Popen, patience: float) -> None:
    """End the command once the pipe is closed: asked first, killed after so many seconds."""
    while os.read(0, 1):
        pass
    _signal(child.pid, signal.SIGTERM)
    try:
        child.wait(patience)
    except subprocess.TimeoutExpired:
        _signal(child.pid, signal.SIGKILL)


def _end_all() -> None:
    """Kill all children, and theirs, which become this process' own one after the other; return when none is left."""
    while True:
        for pid in _children():
            _signal(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    """Processes that this one is the parent of."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    main()
