"""math-verify in another process, and the script of that process.

`grader` sends it the answers that it cannot decide itself. A hostile answer may keep the parser busy for ever; here it
ends at a limit on time or memory, and training goes on.

The process imports the parser once and then forks for every answer, which leaves nothing in a cache and has the same
verdict in any order. The process itself judges no answer and has one thread, so that it can always fork. It reads lines
of pairs, and replies with a line [index, status] for each pair.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

from reward_ablation.rewards.grading.comparison import Status, settle
from reward_ablation.rewards.killable_process import KillableProcess

MEMORY_BYTES = 1 << 30  # address space; the parser alone takes about 70 MB
CPU_SECONDS = 1  # for one answer; ordinary answers take some hundredths
WALL_SECONDS = 8.0  # for a stalled machine; usually the limit on CPU time acts first
MOST_AT_ONCE = 4  # so that hostile answers take no more than this many times the memory
BATCH = 256  # most answers in one request
CACHE = 1 << 14  # most verdicts that are kept

#: What a signal that ended a child says: a limit on time or memory was reached. Any other signal came from outside.
_BOUNDS = dict.fromkeys((signal.SIGXCPU, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS), "timeout")
_BOUNDS |= {signal.SIGALRM: "late"}
_STATUSES = ("correct", "wrong", "unparseable", "timeout", "error", "killed")  # by the exit status of a child
#: Slurm sends these to all processes of a job. Training goes on to the end of its step and needs this process.
FOR_THE_STARTER = {signal.SIGTERM, signal.SIGINT}
#: Compared before the first answer, so that no answer spends its time on building the parser's tables.
_WARM_UP = [
    (r"\frac{\sqrt{3}}{2}+\pi", r"\pi+\sqrt{3}/2"),
    ("y=2x+3", "y-3=2x"),
    (r"[1,2)\cup(3,\infty)", r"(3,\infty)\cup[1,2)"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\3&5\end{bmatrix}"),
    (r"\log_2(8)\cdot\sin\theta", r"3\sin(\theta)"),
    (r"|x|", "x"),
]

Judge = Callable[[str, str], str]
Pair = tuple[str, str]  # gold, answer


class MathWorker(KillableProcess):
    """The worker process, and the verdicts that are known."""

    name = "the grading worker"
    reply_seconds = 4 * WALL_SECONDS  # for a worker that cannot end an answer itself

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Pair, str] = {}

    def judge(self, pairs: Sequence[Pair]) -> list[Status]:
        """Statuses by math-verify, in order; error for a child that is killed twice, RuntimeError if none can start."""
        with self.lock:
            found = {pair: self._known[pair] for pair in pairs if pair in self._known}
            new = [pair for pair in dict.fromkeys(pairs) if pair not in found]
            for start in range(0, len(new), BATCH):
                for _ in range(2):  # a killed process may not be the fault of its answer
                    self._ask([pair for pair in new[start : start + BATCH] if pair not in found], found)
            # An error or a deadline in wall time is not kept, because it may be the machine's fault.
            self._known |= {pair: found[pair] for pair in new if found.get(pair, "late") != "late"}
            while len(self._known) > CACHE:
                del self._known[next(iter(self._known))]
        statuses = (found.get(pair, "error") for pair in pairs)
        return ["timeout" if status == "late" else status for status in statuses]  # type: ignore[misc]

    def _ask(self, pairs: list[Pair], found: dict[Pair, str]) -> None:
        """Add the statuses from one request, except for answers whose process was killed or whose worker ended."""
        if not pairs:
            return
        with self.in_use():
            self.send(pairs)
            for _ in pairs:
                index, status = self.receive()[0]
                if status != "killed":
                    found[pairs[index]] = status

    def launch(self) -> None:
        """Start the worker. Its hash seed is fixed, because sympy orders by hash: the same verdict each time."""
        self.start([__file__], socket.SOCK_STREAM, {**os.environ, "PYTHONHASHSEED": "0"})


math_worker = MathWorker()


def load_judge() -> Judge:
    """Import math-verify and return a function (gold, answer) -> status."""
    from reward_ablation.rewards.grading.symbolic import TooCostly, equal

    logging.disable()  # math-verify writes to the log whenever it is told to set no alarm

    def judge(gold: str, answer: str) -> str:
        try:
            return settle(gold, answer, equal) or "unparseable"
        except (MemoryError, TooCostly):
            return "timeout"
        except Exception:  # any error of sympy
            return "unparseable"

    for pair in _WARM_UP:
        judge(*pair)
    return judge


def judged(pairs: list[list[str]], judge: Judge) -> Iterator[tuple[int, str]]:
    """Index and status of each pair, in the order in which the children finish."""
    at_once = min(MOST_AT_ONCE, len(os.sched_getaffinity(0)))
    waiting = list(reversed(list(enumerate(pairs))))
    running: dict[int, int] = {}  # index by process
    while waiting or running:
        if waiting and len(running) < at_once:
            index, pair = waiting.pop()
            running[fork_child(judge, *pair)] = index
            continue
        process, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        yield running.pop(process), _STATUSES[code] if code >= 0 else _BOUNDS.get(signal.Signals(-code), "killed")


def fork_child(judge: Judge, gold: str, answer: str) -> int:
    """Judge one answer in a child, which ends with the status. Returns the child's process id."""
    if process := os.fork():
        return process
    status = "killed"
    try:
        # The default action ends the process even inside a long operation in C.
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))  # SIGXCPU, a second later SIGKILL
        signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
        status = judge(gold, answer)
    finally:
        os._exit(_STATUSES.index(status))


def limit_process() -> None:
    """Limit this process and its children, and set their signals, which the starter may have blocked."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in _BOUNDS:
        signal.signal(number, signal.SIG_DFL)
    for number in FOR_THE_STARTER:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def main() -> None:
    """Answer lines of pairs until the caller ends."""
    with open(0, "w", buffering=1, closefd=False) as replies:
        try:
            limit_process()
            judge = load_judge()
            gc.collect()
            gc.freeze()  # a collection in a child would copy every page
            print(json.dumps({"ready": True}), file=replies)
            for line in sys.stdin:
                for reply in judged(json.loads(line), judge):
                    print(json.dumps(reply), file=replies)
        except Exception as error:  # a broken installation, or the system gives no process
            print(json.dumps({"failed": f"{type(error).__name__}: {error}"}), file=replies)


if __name__ == "__main__":
    main()
