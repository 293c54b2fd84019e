"""The process that runs math-verify, started by `supervisor` as a script: JSON lines in, JSON lines out.

The process imports the parser once and then forks for every answer. An answer therefore uses no more than its child's
CPU time and memory, leaves nothing in a cache, and has the same verdict in any order. The process itself judges no
answer and has one thread, so that it can always fork.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

MEMORY_BYTES = 1 << 30  # address space; the parser alone takes about 70 MB
CPU_SECONDS = 1  # for one answer; ordinary answers take some hundredths
WALL_SECONDS = 8.0  # for a stalled machine; usually the limit on CPU time acts first

#: Signals that end a child because of its own answer: the limit on CPU time, or a crash such as a stack overflow.
_BOUNDS = {signal.SIGXCPU, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS}

#: Signals that Slurm sends to all processes of a job. This process ignores them, because training goes on to the end of
#: its step and needs this process until then. The process ends when the starter closes its input.
FOR_THE_STARTER = {signal.SIGTERM, signal.SIGINT}

#: Compared before the first answer, so that no answer spends its time on building the parser's tables.
_WARM_UP = [
    (r"\frac{\sqrt{3}}{2}+\pi", r"\pi+\sqrt{3}/2"),
    ("x^2+2x+1", "(x+1)^2"),
    ("y=2x+3", "y-3=2x"),
    (r"x>2", r"2<x"),
    (r"[1,2)\cup(3,\infty)", r"(3,\infty)\cup[1,2)"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\3&5\end{bmatrix}"),
    (r"\log_2(8)\cdot\sin\theta", r"3\sin(\theta)"),
    (r"|x|", "x"),
]

Judge = Callable[[str, str], str]


def load_judge() -> Judge:
    """Import math-verify and return a function (gold, answer) -> status."""
    from reward_ablation.rewards.grading.settling import settle
    from reward_ablation.rewards.grading.symbolic import TooCostly, equal

    logging.disable()  # math-verify writes to the log whenever it is told to set no alarm

    def judge(gold: str, answer: str) -> str:
        try:
            return settle(gold, answer, equal) or "unparseable"
        except (MemoryError, TooCostly):
            return "timeout"
        except Exception:  # `Unreadable`, or any error of sympy
            return "unparseable"

    for pair in _WARM_UP:
        judge(*pair)
    return judge


def judged(pairs: list[list[str]], at_once: int, judge: Judge) -> Iterator[tuple[int, str]]:
    """Index and status of each pair, in the order in which the children finish; `at_once` children run at a time."""
    waiting = list(reversed(list(enumerate(pairs))))
    running: dict[int, tuple[int, int, float]] = {}  # by pipe: index, process, deadline
    poll = select.poll()
    while waiting or running:
        while waiting and len(running) < at_once:
            index, pair = waiting.pop()
            process, pipe = fork_child(judge, *pair)
            running[pipe] = (index, process, time.monotonic() + WALL_SECONDS)
            poll.register(pipe, select.POLLIN)
        earliest = min(deadline for _, _, deadline in running.values())
        ended = [pipe for pipe, _ in poll.poll(max(0.0, earliest - time.monotonic()) * 1000)]
        late = [pipe for pipe, (_, _, deadline) in running.items() if deadline <= time.monotonic()]
        for pipe in ended or late:
            index, process, _ = running.pop(pipe)
            poll.unregister(pipe)
            yield index, reap(process, pipe, kill=not ended)


def fork_child(judge: Judge, gold: str, answer: str) -> tuple[int, int]:
    """Judge one answer in a child. Returns the child's process id, and the pipe to which it writes the status."""
    read_end, write_end = os.pipe()
    process = os.fork()
    if process:
        os.close(write_end)
        return process, read_end
    try:
        # The default action ends the process even inside a long operation in C.
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        os.write(write_end, judge(gold, answer).encode())
    finally:
        os._exit(0)


def reap(process: int, pipe: int, *, kill: bool) -> str:
    """Status from a child that has ended, or that is killed now."""
    if kill:
        os.kill(process, signal.SIGKILL)
    status = os.read(pipe, 64).decode()
    os.close(pipe)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status:
        return status
    if kill:
        return "late"
    return "timeout" if -code in _BOUNDS else "killed"


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
    """Read one batch per line until the input ends, {"pairs": [[gold, answer], ...], "at_once": n}, and reply."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # so that text that a library prints is no reply

    def reply(**message: Any) -> None:
        print(json.dumps(message), file=replies)

    try:
        limit_process()
        judge = load_judge()
    except Exception as error:
        reply(failed=f"{type(error).__name__}: {error}")
        return
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    reply(ready=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            for index, status in judged(request["pairs"], request["at_once"], judge):
                reply(index=index, status=status)
        except OSError as error:  # the system gives no process or no pipe
            reply(failed=str(error))
            return


if __name__ == "__main__":
    main()
