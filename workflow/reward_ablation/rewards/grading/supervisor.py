"""Manages the worker process that runs math-verify: starts it when first needed, limits it, kills and replaces it.

The worker is a fresh interpreter, for three reasons. The caller may hold a GPU or threads, which a fork would share.
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
from collections.abc import Sequence

from reward_ablation.rewards.grading import worker
from reward_ablation.rewards.grading.settling import Status

START_SECONDS = 120.0  # imports on a busy network file system
REPLY_SECONDS = 4 * worker.WALL_SECONDS  # for a worker that cannot end an answer itself
BATCH = 256  # most answers in one request
CACHE = 1 << 14  # most verdicts that are kept

Pair = tuple[str, str]  # gold, answer


class MathWorker:
    """A worker process for all threads of this process. A forked child starts another worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._known: dict[Pair, str] = {}
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        """Process id of the running worker; None before the first question and after a kill."""
        return self._process.pid if self._process else None

    def judge(self, pairs: Sequence[Pair], at_once: int) -> list[Status]:
        """Statuses of extracted answers by math-verify, in the order of the pairs; `at_once` are judged at a time.

        The status timeout means that the limit on CPU time, memory or wall time was reached. The status error means
        that two processes were ended by something else before they replied. If the worker cannot start or cannot fork,
        this is a RuntimeError, because every status would be false.
        """
        with self._lock:
            found = {pair: self._known[pair] for pair in pairs if pair in self._known}
            new = [pair for pair in dict.fromkeys(pairs) if pair not in found]
            for start in range(0, len(new), BATCH):
                for _ in range(2):  # a killed process may not be the fault of its answer
                    found |= self._ask([pair for pair in new[start : start + BATCH] if pair not in found], at_once)
            # An error or a deadline in wall time is not kept, because it may be the machine's fault.
            self._known |= {pair: found[pair] for pair in new if found.get(pair, "late") != "late"}
            while len(self._known) > CACHE:
                del self._known[next(iter(self._known))]
        statuses = (found.get(pair, "error") for pair in pairs)
        return ["timeout" if status == "late" else status for status in statuses]  # type: ignore[misc]

    def close(self) -> None:
        """End the worker; the next question starts another."""
        with self._lock:
            self._stop()

    def _ask(self, pairs: list[Pair], at_once: int) -> dict[Pair, str]:
        """Statuses from one request, except for answers whose process was killed or whose worker ended first."""
        found: dict[Pair, str] = {}
        if not pairs:
            return found
        process = self._process = self._process or _Process()
        try:
            process.send(pairs, at_once)
            for _ in pairs:
                index, status = process.receive()
                if status != "killed":
                    found[pairs[index]] = status
        except BaseException as error:  # an interrupt here would leave replies behind for the next question
            self._stop()
            if not isinstance(error, ConnectionError | EOFError | TimeoutError):
                raise
        return found

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _forget(self) -> None:
        """In a forked child: leave the worker to the parent."""
        self._lock = threading.Lock()
        if self._process:
            self._process.close()
        self._process = None


class _Process:
    """The worker and the socket to it, ready for requests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._replies = self._socket.makefile("r")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, worker.FOR_THE_STARTER)  # until the worker ignores them
        try:
            self._popen = subprocess.Popen(
                # -P: no module beside the script or in the working folder can take the place of sympy's
                [sys.executable, "-P", worker.__file__],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # the parser prints answers that it could not read
                env={**os.environ, "PYTHONHASHSEED": "0"},  # sympy orders by hash: the same verdict each time
                start_new_session=True,  # an interrupt at the terminal reaches the parent alone; makes a group to kill
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self.pid = self._popen.pid
        self._socket.settimeout(START_SECONDS)
        try:
            self.receive()
        except (ConnectionError, EOFError, TimeoutError):
            self.kill()
            raise RuntimeError(f"the grading worker did not start within {START_SECONDS:g} s, or ended") from None
        except BaseException:
            self.kill()
            raise

    def send(self, pairs: list[Pair], at_once: int) -> None:
        """Write one request; TimeoutError after `REPLY_SECONDS`, ConnectionError if the worker has ended."""
        self._socket.settimeout(REPLY_SECONDS)
        self._socket.sendall(json.dumps([pairs, at_once]).encode() + b"\n")

    def receive(self) -> tuple[int, str]:
        """Index and status of an answer; TimeoutError after the same time, EOFError if the worker has ended."""
        line = self._replies.readline()
        if not line:
            raise EOFError
        index, status = json.loads(line)
        if index < 0:
            raise RuntimeError(f"the grading worker failed: {status}")
        return index, status

    def kill(self) -> None:
        """End the worker and all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        self.close()

    def close(self) -> None:
        """Close the socket; the worker ends when nobody has it open."""
        self._replies.close()
        self._socket.close()


math_worker = MathWorker()
