"""The difference between two specs in the words of a config: why there is no result of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reward_ablation.start.history import History, arm_of
from reward_ablation.study.study import Run

#: Stands for the value of a key that one of two specs lacks.
ABSENT = object()
#: Longest value of a spec, in characters, that is not cut.
LONGEST = 40


def why_new(run: Run, history: History) -> str:
    """Why there is no result of a run, by comparison with the most similar earlier spec of the same arm."""
    if not history.arms:
        return "not trained yet"
    trained_as = arm_of(run.name)
    if any(name.startswith(f"{run.folder}/") for name in history.arms.get(trained_as, {})):
        return "new seed"
    spec = run.arm_spec.content()
    earlier = {name.partition("/")[0]: record for name, record in history.arms.get(run.arm, {}).items()}
    changes = [differences(record["spec"], spec) for record in earlier.values() if isinstance(record.get("spec"), dict)]
    return ", ".join(sorted(changes, key=len)[0]) if changes else "new arm"


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The differences of two specs without seeds, in words, weights first.

    >>> differences({"weights": {"format": 0.33}}, {"weights": {"format": 0.5}})
    ['format 0.33 → 0.5']
    """
    names = _new_names(before.get("components", {}), after.get("components", {}))
    for section in ("components", "weights"):
        if section in before:
            renamed = {names.get(name, name): value for name, value in before[section].items()}
            before = {**before, section: renamed}
    changes = [change for change in leaves(before, after) if not _is_no_weight(*change)]
    texts = [(path[0] != "weights", _in_words(path, old, new)) for path, old, new in changes]
    texts += [(True, f"component {old} is now called {new}") for old, new in names.items()]
    return [text for _, text in sorted(dict.fromkeys(texts), key=lambda item: item[0])]


def _new_names(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """The new names of components that have another name and are the same otherwise, by their old names."""
    names: dict[str, str] = {}
    for old in before.keys() - after.keys():
        same = [new for new in after.keys() - before.keys() - {*names.values()} if after[new] == before[old]]
        if same:
            names[old] = min(same)
    return names


def _is_no_weight(path: tuple[str, ...], old: Any, new: Any) -> bool:
    """Whether a difference is that of a weight of 0 and no weight, which are the same."""
    return path[0] == "weights" and len(path) == 2 and all(value is ABSENT or value == 0 for value in (old, new))


def leaves(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Paths at which two values differ, with both values. A component that only one of them has is one difference."""
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
            return f"component {component} {'is new' if old is ABSENT else 'is gone'}"
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


def _value(value: Any) -> str:
    """A value as written in a config. Commit hashes are cut to their first digits, and long texts are cut."""
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
