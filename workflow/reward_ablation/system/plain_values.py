"""Checks that a config holds only values that reach every program, file, page and terminal unchanged.

`study.resolve` and the reader of YAML (`strict_text`) check configs, and messages and pages show texts as `printable`.
A config is passed as JSON in the arguments of commands, and parts of it are shown in terminals and reports. Control
characters are commands to a terminal, NUL ends an argument, and JSON has no dates and no NaN. Columns of Parquet hold
whole numbers of 64 bits. Marks of direction and other signs that do not show are allowed, as languages need them.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from typing import Any

#: Control characters that a text may hold.
WHITE_SPACE = "\n\t\r"

#: Largest number of levels and of entries of a config. By YAML's aliases, a small file can be endless.
DEEPEST, MOST_ENTRIES = 40, 1_000_000

#: Largest number of bytes of an argument. Linux accepts 131,072 for one, and a rule's whole shell command, with paths
#: and quotes, is one argument of bash.
LONGEST_ARGUMENT = 100_000


def check_values(written: Any) -> None:
    """Refuse, by a ValueError, values that JSON, a command line or a terminal would not take unchanged."""
    for number, (keys, value) in enumerate(_entries(written, ())):
        if number >= MOST_ENTRIES or len(keys) > DEEPEST:
            raise ValueError(
                f"{dotted(keys[:3])}: more than {MOST_ENTRIES} entries or {DEEPEST} levels; "
                "take out aliases (*name) that repeat or contain themselves"
            )
        if problem := _problem(value):
            raise ValueError(f"{dotted(keys)}: {problem}")


def check_length(argument: str, of_what: str, written: Any) -> None:
    """Refuse a command's argument that is too long, by a ValueError on the longest text in `written`, its content."""
    length = len(argument.encode())
    if length <= LONGEST_ARGUMENT:
        return
    texts = [(len(value), keys) for keys, value in _entries(written, ()) if isinstance(value, str)]
    longest, keys = max(texts, default=(0, ()))
    raise ValueError(
        f"{dotted(keys)}: the longest text, of {longest} characters, in {of_what}, which has {length} bytes; an "
        f"argument of a command may have {LONGEST_ARGUMENT}: shorten the text"
    )


def dotted(keys: tuple[Any, ...]) -> str:
    """Keys, from the outermost to the innermost, as messages write them: `arms.a.weights`."""
    return ".".join(printable(str(key)) for key in keys) or "config"


def printable(text: str, most: int = 2000) -> str:
    """A text as one line without control characters. Beyond `most` characters, the middle is left out."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return shown if len(shown) <= most else f"{shown[: most // 2]} ... {shown[-most // 2 :]}"


def _entries(value: Any, keys: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Keys and values of a config, each with the path of keys to it, the outermost first."""
    yield keys, value
    if len(keys) > DEEPEST:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in items:
        if isinstance(value, dict):
            yield (*keys, key), key
        yield from _entries(item, (*keys, key))


def _problem(value: Any) -> str | None:
    """What is wrong with one key or value, and what to do; None if nothing is."""
    if isinstance(value, str):
        return _problem_of_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not allowed; give a finite number"
    if isinstance(value, int) and value.bit_length() > 63:
        return f"a whole number beyond {2**63 - 1} is not allowed; write it as text, or as 1.0e+20"
    if value is None or isinstance(value, bool | int | float | dict | list | tuple):
        return None
    return f"{value} is not allowed: YAML reads it as a {type(value).__name__}; put it in quotes to have text"


def _problem_of_text(text: str) -> str | None:
    if text.isprintable():
        return None
    for char in text:
        kind = unicodedata.category(char)
        if kind == "Cs" or (kind == "Cc" and char not in WHITE_SPACE):
            name = "half a character (a surrogate)" if kind == "Cs" else "a control character"
            return f"{printable(text, 60)!r} has {name}, {char!a}; take it out"
    return None
