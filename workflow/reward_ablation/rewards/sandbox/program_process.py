"""The process of a program under test. It knows neither the tests nor the expected results, and gives no verdict."""

from __future__ import annotations

import os
import random
import sys
import types
from typing import Any

from reward_ablation.rewards.sandbox.remote import OPERATIONS, Ended, Link

SERVED_NAME = "program"


def serve_program(source: str, descriptor: int) -> None:
    """Run a program's top level, and answer calls of the names that it defines until the other side ends."""
    random.seed(0)  # so that the verdict does not depend on chance
    module = types.ModuleType(SERVED_NAME)
    sys.modules[SERVED_NAME] = module  # dataclasses look their module up
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
    try:
        Link(descriptor, may_serve=lambda *_: True).serve()
    except Ended:
        os._exit(0)


def run_script(source: str) -> None:
    """Run a program as a script, on standard input and output. Its printed text counts, however the program ends."""
    random.seed(0)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
    finally:
        sys.stdout.flush()
