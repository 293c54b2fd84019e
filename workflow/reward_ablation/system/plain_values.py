"""What a config may hold: values that reach every program, file, page and terminal unchanged.

A config travels as JSON in the arguments of commands, and parts of it are shown in terminals and reports. Control
characters are commands to a terminal, NUL ends an argument, and JSON has no date and no NaN.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from typing import Any

#: Control characters that a text may hold.
WHITE_SPACE = "\n\t\r"

#: Levels and entries of a config. YAML's aliases can make a small file endless.
DEEPEST, MOST_ENTRIES = 40, 1_000_000

#: Bytes of one argument of a command: Linux takes 131,072 of the whole command, with its paths and quotes.
LONGEST_ARGUMENT = 100_000


def check_values(written: Any) -> None:
    """Refuse, by a ValueError, values read from YAML that JSON, a command line or a terminal does not take as is."""
    for number, (place, value) in enumerate(_entries(written, ())):
        if number >= MOST_ENTRIES or len(place) > DEEPEST:
            raise ValueError(
                f"{dotted(place[:3])}: more than {MOST_ENTRIES} entries or {DEEPEST} levels; "
                "take out aliases (*name) that repeat or contain themselves"
            )
        if problem := _problem(value):
            raise ValueError(f"{dotted(place)}: {problem}")


def check_length(argument: str, of_what: str, written: Any) -> None:
    """Refuse, by a ValueError, a value that is too long for a command's argument.

    Parameters
    ----------
    argument : str
        The value as it is passed on.
    of_what : str
        What the value says, for the message.
    written : Any
        The config, of which the message names the longest text.
    """
    length = len(argument.encode())
    if length <= LONGEST_ARGUMENT:
        return
    texts = [(len(value), place) for place, value in _entries(written, ()) if isinstance(value, str)]
    longest, place = max(texts, default=(0, ()))
    raise ValueError(
        f"{dotted(place)}: the longest text, of {longest} characters, in {of_what}, which has {length} bytes; commands "
        f"take {LONGEST_ARGUMENT}: shorten it"
    )


def dotted(place: tuple[Any, ...]) -> str:
    """Keys from the outermost to the innermost, as a message names them."""
    return ".".join(printable(str(key)) for key in place) or "config"


def printable(text: str, most: int = 2000) -> str:
    """A text as one line that does nothing to a terminal; the middle is left out beyond so many characters."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return shown if len(shown) <= most else f"{shown[: most // 2]} ... {shown[-most // 2 :]}"


def _entries(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Keys and values of a config with their places, the outermost first."""
    yield place, value
    if len(place) > DEEPEST:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in items:
        if isinstance(value, dict):
            yield (*place, key), key
        yield from _entries(item, (*place, key))


def _problem(value: Any) -> str | None:
    """What is wrong with one key or value, and what to do."""
    if isinstance(value, str):
        return _problem_of_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not allowed; give a finite number"
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
