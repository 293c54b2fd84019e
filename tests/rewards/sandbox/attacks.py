"""Programs from attacks: the attack stands at different places of a program."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

#: Stands in programs for the path of a file in the home folder, whose text is a secret.
CANARY_PATH = "CANARY_PATH"
WRONG = "def cube(x):\n    return -1\n"

Family = Callable[[Random], str]


def body(rng: Random, attack: str, after: str = WRONG) -> str:
    """The attack at the top level, in the function, or when the interpreter ends; errors hidden or not."""
    lines = attack.strip().splitlines()
    if rng.random() < 0.5:
        indented = "".join(f"    {line}\n" for line in lines)
        lines = f"try:\n{indented}except {rng.choice(['Exception', 'BaseException'])}:\n    pass".splitlines()
    indented = "".join(f"    {line}\n" for line in lines)
    at_top = "\n".join(lines) + f"\n{after}"
    in_function = f"def cube(x):\n{indented}    return {rng.choice(['True', '0', 'None', 'x', 'int'])}\n"
    at_exit = f"import atexit\ndef last():\n{indented}atexit.register(last)\n{after}"
    deleted = "class Last:\n    def __del__(self):\n" + "".join(f"    {line}\n" for line in indented.splitlines())
    return rng.choice([at_top, at_top, in_function, in_function, at_exit, f"{deleted}keep = Last()\n{after}"])


def of(*attacks: str) -> Family:
    return lambda rng: body(rng, rng.choice(attacks).replace("NUMBER", str(rng.randrange(1, 1000))))


def alone(*programs: str) -> Family:
    return lambda rng: rng.choice(programs).replace("NUMBER", str(rng.randrange(1, 1000)))
