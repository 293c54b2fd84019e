"""The process that runs math-verify, started by `supervisor` as a script. Its standard input is a socket of JSON lines.

The process imports the parser once and then forks for every answer, which leaves nothing in a cache and has the same
verdict in any order. The process itself judges no answer and has one thread, so that it can always fork.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator

MEMORY_BYTES = 1 << 30  # address space; the parser alone takes about 70 MB
CPU_SECONDS = 1  # for one answer; ordinary answers take some hundredths
WALL_SECONDS = 8.0  # for a stalled machine; usually the limit on CPU time acts first
MOST_AT_ONCE = 4  # so that hostile answers take no more than this many times the memory

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


def load_judge() -> Judge:
    """Import math-verify and return a function (gold, answer) -> status."""
    from reward_ablation.rewards.grading.comparison import settle
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
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
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
    """Reply to each line of pairs with lines [index, status], and to an error with [-1, error]."""
    with open(0, "w", buffering=1, closefd=False) as replies:
        try:
            limit_process()
            judge = load_judge()
            gc.collect()
            gc.freeze()  # a collection in a child would copy every page
            print(json.dumps([0, "ready"]), file=replies)
            for line in sys.stdin:
                for reply in judged(json.loads(line), judge):
                    print(json.dumps(reply), file=replies)
        except Exception as error:  # a broken installation, or the system gives no process
            print(json.dumps([-1, f"{type(error).__name__}: {error}"]), file=replies)


if __name__ == "__main__":
    main()
