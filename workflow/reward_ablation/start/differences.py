"""What differs between two specs, in words: `format 0.33 → 0.5`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

#: Value of a key that one of two specs does not have.
ABSENT = object()

#: Longest value that is told whole.
LONGEST = 40


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Each difference of two specs without seeds, in words; weights first.

    >>> differences({"weights": {"format": 0.33}}, {"weights": {"format": 0.5}})
    ['format 0.33 → 0.5']
    """
    found = [(path[0] != "weights", _in_words(path, old, new)) for path, old, new in leaves(before, after)]
    return [text for _, text in sorted(dict.fromkeys(found), key=lambda item: item[0])]


def leaves(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Paths at which two values differ, with both; a component that one of them lacks is one difference."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from leaves(before.get(key, ABSENT), after.get(key, ABSENT), (*path, key))
    else:
        yield path, before, after


def _in_words(path: tuple[str, ...], old: Any, new: Any) -> str:
    section, *rest = path
    name = " ".join(rest)
    change = f"{_value(old)} → {_value(new)}"
    match section, rest:
        case "weights", [component]:
            return f"{component} {_value(0 if old is ABSENT else old)} → {_value(0 if new is ABSENT else new)}"
        case "components", [component]:
            return f"component {component} {_came_or_went(old)}"
        case "components", [component, "code"]:
            return f"component {component}: its code changed"
        case "components", [component, "parameters", parameter]:
            return f"component {component}: {parameter} {change}"
        case "components", [component, *keys]:
            return f"component {component}: {' '.join(keys)} {change}"
        case "training", [setting]:
            return f"{setting} {change}"
        case (("data" | "model"), _) if rest[-1:] == ["content"]:
            return "the training set changed" if section == "data" else "the base model changed"
        case "data", ["source", *keys] if keys:
            return f"data: {' '.join(keys)} {change}"
        case _:
            return f"{section}: {name} {change}" if name else f"{section} {change}"


def _came_or_went(old: Any) -> str:
    return "is new" if old is ABSENT else "is gone"


def _value(value: Any) -> str:
    """A value as a config has it; commit hashes by their first digits, long texts cut."""
    if value is ABSENT:
        return "(default)"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if re.fullmatch(r"[0-9a-f]{16,}", text):
        return text[:8]
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
