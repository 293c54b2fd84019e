"""The process of a program under test. It knows neither the tests nor the expected results, and gives no verdict."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import threading
import types
from typing import Any

from reward_ablation.rewards.sandbox.remote import OPERATIONS, Ended, Link

SERVED_NAME = "program"


def serve_program(source: str, descriptor: int) -> None:
    """Run a program's top level, and answer calls of the names that it defines until the other side ends."""
    random.seed(0)  # so that the verdict does not depend on chance
    output = sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", write_through=True)
    module = types.ModuleType(SERVED_NAME)
    sys.modules[SERVED_NAME] = module  # dataclasses look their module up
    _run_threads_in_place(SERVED_NAME)
    failure: list[BaseException] = []
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
    except BaseException as error:  # also SystemExit: a program that exits has no functions to test
        failure.append(error)

    def names(_: Any, asked: list[str]) -> dict[str, Any]:
        if failure:
            raise failure[0]
        return {name: module.__dict__[name] for name in asked if name in module.__dict__}

    OPERATIONS["names"] = names
    OPERATIONS["eval"] = lambda _, code: eval(code, module.__dict__)
    OPERATIONS["exec"] = lambda _, code: exec(code, module.__dict__)
    try:
        Link(descriptor, output=output).serve()
    except Ended:
        os._exit(0)


def run_script(source: str) -> None:
    """Run a program as a script, on standard input and output. Its printed text counts, however the program ends."""
    random.seed(0)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    _run_threads_in_place("__main__")
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
    finally:
        sys.stdout.flush()


def _run_threads_in_place(module: str) -> None:
    """Have a thread for a function of the program run when it starts: it can be no thread, and many wait for one."""
    start = threading.Thread.start

    def start_here(self: Any) -> None:
        if getattr(vars(self).get("_target") or type(self), "__module__", None) != module:
            return start(self)  # such as a pool's worker, which would wait for ever
        self.join, self.is_alive = lambda timeout=None: None, lambda: False
        with contextlib.suppress(Exception, SystemExit):  # neither ends the other threads
            self.run()

    threading.Thread.start = start_here  # type: ignore[method-assign]
