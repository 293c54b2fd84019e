"""Asks the process of `worker`, which runs math-verify: starts it when first needed, limits, kills and replaces it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence

from reward_ablation.rewards.grading import worker
from reward_ablation.rewards.grading.comparison import Status
from reward_ablation.rewards.killable_process import KillableProcess

START_SECONDS = 120.0  # imports on a busy network file system
REPLY_SECONDS = 4 * worker.WALL_SECONDS  # for a worker that cannot end an answer itself
BATCH = 256  # most answers in one request
CACHE = 1 << 14  # most verdicts that are kept

Pair = tuple[str, str]  # gold, answer


class MathWorker(KillableProcess):
    """The worker process, and the verdicts that are known."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Pair, str] = {}

    def judge(self, pairs: Sequence[Pair]) -> list[Status]:
        """Statuses by math-verify, in the order of the pairs; error if two processes were ended from outside.

        If the worker cannot start or cannot fork, this is a RuntimeError, because every status would be false.
        """
        with self.lock:
            found = {pair: self._known[pair] for pair in pairs if pair in self._known}
            new = [pair for pair in dict.fromkeys(pairs) if pair not in found]
            for start in range(0, len(new), BATCH):
                for _ in range(2):  # a killed process may not be the fault of its answer
                    found |= self._ask([pair for pair in new[start : start + BATCH] if pair not in found])
            # An error or a deadline in wall time is not kept, because it may be the machine's fault.
            self._known |= {pair: found[pair] for pair in new if found.get(pair, "late") != "late"}
            while len(self._known) > CACHE:
                del self._known[next(iter(self._known))]
        statuses = (found.get(pair, "error") for pair in pairs)
        return ["timeout" if status == "late" else status for status in statuses]  # type: ignore[misc]

    def _ask(self, pairs: list[Pair]) -> dict[Pair, str]:
        """Statuses from one request, except for answers whose process was killed or whose worker ended first."""
        found: dict[Pair, str] = {}
        if not pairs:
            return found
        try:
            if self.pid is None:
                self._start_worker()
            self.socket.settimeout(REPLY_SECONDS)
            self.socket.sendall(json.dumps(pairs).encode() + b"\n")
            for _ in pairs:
                index, status = self._receive()
                if status != "killed":
                    found[pairs[index]] = status
        except BaseException as error:  # an interrupt here would leave replies behind for the next question
            self.kill()
            if not isinstance(error, ConnectionError | TimeoutError):
                raise
        return found

    def _start_worker(self) -> None:
        # sympy orders by hash: the same verdict each time
        self.start([worker.__file__], socket.SOCK_STREAM, {**os.environ, "PYTHONHASHSEED": "0"})
        self.socket.settimeout(START_SECONDS)
        try:
            self._receive()
        except (ConnectionError, TimeoutError):
            raise RuntimeError(f"the grading worker did not start within {START_SECONDS:g} s, or ended") from None

    def _receive(self) -> tuple[int, str]:
        """Index and status of an answer; TimeoutError after a time, ConnectionError if the worker has ended."""
        line = b""
        while not line.endswith(b"\n"):
            if not (byte := self.socket.recv(1)):
                raise ConnectionError
            line += byte
        index, status = json.loads(line)
        if index < 0:
            raise RuntimeError(f"the grading worker failed: {status}")
        return index, status


math_worker = MathWorker()
