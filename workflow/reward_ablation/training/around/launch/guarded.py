"""Processes that end with the one that started them, however that one ends."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO


@contextmanager
def guarded(
    command: Sequence[str],
    patience: float,
    environment: Mapping[str, str],
    output: IO[bytes] | None = None,
    keep: Sequence[int] = (),
) -> Iterator[subprocess.Popen]:
    """Run a command as long as the block lasts; all that it has started is gone when this returns.

    Parameters
    ----------
    command : sequence of str
    patience : float
        Seconds between SIGTERM and SIGKILL at the end of the block.
    environment : mapping
    output : file, optional
        For what it prints; default: where this process prints.
    keep : sequence of int
        Descriptors that stay open until it is gone, should this process be killed: of locks.

    Yields
    ------
    Popen
        Its guardian: ends with it, by its exit status, or by 128 and the number of the signal that has ended it; and
        passes SIGTERM and SIGINT on.
    """
    guardian = [sys.executable, "-m", "reward_ablation.training.around.launch.guardian", str(patience), *command]
    process = subprocess.Popen(
        guardian,
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


def free_port(address: str = "") -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]
