"""The process that runs math-verify, started by `supervisor` as a script: JSON lines in, JSON lines out.

It imports nothing of this package and no torch, so that it starts in half a second, and it holds
nothing worth keeping: whoever waits for it may kill it at any time.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable

MEMORY_BYTES = 1 << 30  # address space; sympy needs about 200 MB
CPU_SECONDS = 1.0  # for one answer; ordinary ones take some milliseconds
LIFETIME_CPU_SECONDS = 600  # caches of sympy grow: a worn worker ends here and is replaced


def limit_process() -> None:
    """Bound memory and CPU time of this process, and let the timer of one answer end it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LIFETIME_CPU_SECONDS, LIFETIME_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The default action ends the process even inside a long operation in C, where no exception
    # could be raised. The starter may have ignored or blocked the signal.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})


def load_judge() -> Callable[[str, str], str]:
    """Import math-verify and return a function (gold, answer) -> status."""
    from math_verify import LatexExtractionConfig, parse, verify

    # LaTeX only: the extraction of plain expressions hands text to sympy's parse_expr, which is eval.
    config = [LatexExtractionConfig(boxed_match_priority=0)]

    def read(text: str) -> list:
        boxed = "\\boxed{" + text.replace("%", r"\%") + "}"
        return parse(boxed, config, fallback_mode="no_fallback", parsing_timeout=None)

    def judge(gold: str, answer: str) -> str:
        parsed = read(answer)
        if not parsed:
            return "unparseable"
        return "correct" if verify(read(gold), parsed, timeout_seconds=None) else "wrong"

    return judge


def main() -> None:
    """Answer one request a line until the input ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no reply
    limit_process()
    try:
        judge = load_judge()
    except Exception as error:
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"}), file=replies)
        return
    print(json.dumps({"ready": True}), file=replies)
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            status = judge(request["gold"], request["answer"])
        except MemoryError:
            status = "timeout"
        except Exception:
            status = "unparseable"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"status": status}), file=replies)


if __name__ == "__main__":
    main()
