"""Keeps one math-verify worker: starts it when first needed, bounds each answer, kills and replaces it.

A process of its own and no pool: what sympy does with a hostile answer can only be ended from
outside. It is a fresh interpreter, not a fork (the caller may hold a GPU) and not multiprocessing's
spawn (which would import the caller's main module again).
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

from reward_ablation.rewards import worker

START_SECONDS = 120.0  # imports on a busy network file system
WALL_SECONDS = 8 * worker.CPU_SECONDS  # CPU time is the bound that counts; this one holds on a stalled machine


class MathWorker:
    """A worker process and the right to ask it; safe to share between threads, and harmless in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        """Process id of the running worker; None before the first question and after a kill."""
        return self._process.pid if self._process else None

    def judge(self, gold: str, answer: str) -> str:
        """Status of an answer by math-verify.

        Parameters
        ----------
        gold, answer : str
            Normalised LaTeX.

        Returns
        -------
        {"correct", "wrong", "unparseable", "timeout", "error"}
            timeout: the bound on CPU time, memory or wall time was reached. error: two workers
            ended without a reply.

        Raises
        ------
        RuntimeError
            The worker cannot start: this installation cannot grade, and every status would be false.
        """
        request = json.dumps({"gold": gold, "answer": answer}).encode() + b"\n"
        with self._lock:
            for _ in range(2):  # the first may have ended before, through no fault of this answer
                status = self._ask(request)
                if status is not None:
                    return status
        return "error"

    def close(self) -> None:
        """End the worker; the next question starts another."""
        with self._lock:
            self._stop()

    def _ask(self, request: bytes) -> str | None:
        """Status of one request; None where the worker ended without a reply."""
        try:
            process = self._process = self._process or _start()
            process.stdin.write(request)  # type: ignore[union-attr]
            reply = _read_line(process, WALL_SECONDS)
        except TimeoutError:
            self._stop()
            return "timeout"
        except BrokenPipeError:
            reply = b""
        except BaseException:  # an interrupt here would leave a reply behind for the next question
            self._stop()
            raise
        if reply:
            return json.loads(reply)["status"]
        return "timeout" if self._stop() == -signal.SIGPROF else None

    def _stop(self) -> int | None:
        """Kill the worker unless it has ended; its return code."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.stdin.close()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]
        if process.poll() is None:
            process.kill()
        return process.wait()

    def _forget(self) -> None:
        """In a forked child: leave the worker to the parent, whose pipes these are."""
        self._lock = threading.Lock()
        self._process = None


def _start() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            worker.__file__,
        ],  # -P: no module beside the script or in the folder is taken for sympy's
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the parser prints what it could not read
        bufsize=0,
        env={**os.environ, "PYTHONHASHSEED": "0"},  # sympy orders by hash: the same answer each time
        start_new_session=True,  # an interrupt at the terminal is for the parent, which closes the worker
    )
    try:
        reply = json.loads(_read_line(process, START_SECONDS) or '{"failed": "it ended at once"}')
    except BaseException:
        process.kill()
        process.wait()
        raise
    if "failed" in reply:
        process.kill()
        process.wait()
        raise RuntimeError(f"the grading worker did not start: {reply['failed']}")
    return process


def _read_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """One line of the worker's output, or b"" where it ended; TimeoutError after so many seconds."""
    descriptor = process.stdout.fileno()  # type: ignore[union-attr]
    poll = select.poll()  # not select.select, which refuses descriptors above 1,023
    poll.register(descriptor, select.POLLIN)
    deadline, line = time.monotonic() + seconds, b""
    while not line.endswith(b"\n"):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        part = os.read(descriptor, 65536)
        if not part:
            return b""
        line += part
    return line


math_worker = MathWorker()
