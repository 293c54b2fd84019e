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
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

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
        """Statuses of extracted answers by math-verify, in the order of the pairs.

        The status timeout means that the limit on CPU time, memory or wall time was reached. The status error means
        that two processes were ended by something else before they replied.

        Parameters
        ----------
        pairs : sequence of (str, str)
            Gold and answer.
        at_once : int
            Number of answers that are judged at once, each in its own process. The statuses do not depend on it.

        Raises
        ------
        RuntimeError
            The worker cannot start, or cannot fork: every status would be false.
        """
        with self._lock:
            found = {pair: self._known[pair] for pair in pairs if pair in self._known}
            new = [pair for pair in dict.fromkeys(pairs) if pair not in found]
            for start in range(0, len(new), BATCH):
                found |= self._judge_batch(new[start : start + BATCH], at_once)
            # An error or a deadline in wall time is not kept, because it may be the machine's fault.
            self._known |= {pair: found[pair] for pair in new if found[pair] not in ("error", "late")}
            while len(self._known) > CACHE:
                del self._known[next(iter(self._known))]
        return ["timeout" if found[pair] == "late" else found[pair] for pair in pairs]  # type: ignore[misc]

    def close(self) -> None:
        """End the worker; the next question starts another."""
        with self._lock:
            self._stop()

    def _judge_batch(self, pairs: list[Pair], at_once: int) -> dict[Pair, str]:
        found: dict[Pair, str] = {}
        for _ in range(2):  # a killed process may not be the fault of its answer
            if left := [pair for pair in pairs if pair not in found]:
                found |= self._ask(left, at_once)
        return {pair: found.get(pair, "error") for pair in pairs}

    def _ask(self, pairs: list[Pair], at_once: int) -> dict[Pair, str]:
        """Statuses from one request, except for answers whose process was killed or whose worker ended first."""
        found: dict[Pair, str] = {}
        try:
            process = self._process = self._process or _Process()
            process.send({"pairs": pairs, "at_once": at_once}, REPLY_SECONDS)
            for _ in pairs:
                reply = process.receive(REPLY_SECONDS)
                if "failed" in reply:
                    raise RuntimeError(f"the grading worker failed: {reply['failed']}")
                if reply["status"] != "killed":
                    found[pairs[reply["index"]]] = reply["status"]
        except (BrokenPipeError, EOFError, TimeoutError):
            self._stop()
        except BaseException:  # an interrupt here would leave replies behind for the next question
            self._stop()
            raise
        return found

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _forget(self) -> None:
        """In a forked child: leave the worker to the parent, whose pipes these are."""
        self._lock = threading.Lock()
        self._process = None


class _Process:
    """The worker and its two pipes, ready for requests."""

    def __init__(self) -> None:
        with _blocked(worker.FOR_THE_STARTER):  # the worker unblocks these signals once it ignores them
            self._popen = subprocess.Popen(
                # -P: no module beside the script or in the working folder can take the place of sympy's
                [sys.executable, "-P", worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                stderr=subprocess.DEVNULL,  # the parser prints answers that it could not read
                env={**os.environ, "PYTHONHASHSEED": "0"},  # sympy orders by hash: the same verdict each time
                start_new_session=True,  # an interrupt at the terminal reaches the parent alone; makes a group to kill
            )
        self.pid = self._popen.pid
        self._input, self._output = self._popen.stdin.fileno(), self._popen.stdout.fileno()  # type: ignore[union-attr]
        os.set_blocking(self._input, False)  # a write may take part of a line
        self._received = b""
        try:
            reply = self.receive(START_SECONDS)
        except EOFError:
            reply = {"failed": "it ended at once"}
        except TimeoutError:
            reply = {"failed": f"no sign of life in {START_SECONDS:.0f} s"}
        except BaseException:
            self.kill()
            raise
        if "failed" in reply:
            self.kill()
            raise RuntimeError(f"the grading worker did not start: {reply['failed']}")

    def send(self, request: dict[str, Any], seconds: float) -> None:
        """Write one line; TimeoutError after `seconds`, BrokenPipeError if the worker has ended."""
        line = memoryview(json.dumps(request).encode() + b"\n")
        deadline = time.monotonic() + seconds
        while line:
            _wait(self._input, select.POLLOUT, deadline)
            line = line[os.write(self._input, line) :]

    def receive(self, seconds: float) -> dict[str, Any]:
        """Read one line; TimeoutError after `seconds`, EOFError if the worker has ended."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._received:
            _wait(self._output, select.POLLIN, deadline)
            part = os.read(self._output, 65536)
            if not part:
                raise EOFError
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def kill(self) -> None:
        """End the worker and all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            pipe.close()  # type: ignore[union-attr]


def _wait(descriptor: int, event: int, deadline: float) -> None:
    """Wait until a pipe is ready; TimeoutError at the deadline."""
    poll = select.poll()  # not select.select, which refuses descriptors above 1,023
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError


@contextlib.contextmanager
def _blocked(signals: set[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread. Processes that it starts meanwhile keep them blocked until they unblock them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


math_worker = MathWorker()
