"""Keys of a study by environment variables: REWARD_ABLATION__TRAINING__MAX_STEPS=50 is training.max_steps: 50."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import yaml

from reward_ablation.config.study_config import StudyConfig
from reward_ablation.system.errors import StudyError

#: What the names begin with; the parts of a key's path follow, with two underscores between them.
PREFIX = "REWARD_ABLATION__"

#: A number that YAML 1.1 takes for text, and people write in a shell.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


class Setting(NamedTuple):
    """A key of the config that a variable sets, by its path."""

    variable: str
    path: tuple[str, ...]
    value: Any


def variables_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that set keys of a study, those of sections before those of keys in them.

    Raises
    ------
    StudyError
        A variable has a single underscore before a section's name: it would set nothing, and nobody would know.
    """
    one = PREFIX.removesuffix("_")
    for name in sorted(name for name in environment if name.startswith(one) and not name.startswith(PREFIX)):
        rest = name.removeprefix(one)
        for section in StudyConfig.model_fields:
            if f"{rest.lower()}_".startswith(f"{section}_"):
                meant = "__".join(filter(None, [section.upper(), rest[len(section) :].lstrip("_")]))
                raise StudyError(f"{name}: sets nothing; {section} is set by {PREFIX}{meant}, with two underscores")
    names = sorted(name for name in environment if name.startswith(PREFIX))
    return {name: environment[name] for name in sorted(names, key=lambda name: name.removeprefix(PREFIX).count("__"))}


def override(config: dict[str, Any], variables: Mapping[str, str]) -> list[Setting]:
    """Set the keys of a config, in place, that variables name; a mapping replaces what is there.

    Parameters
    ----------
    config : dict
        As read from YAML.
    variables : mapping of str to str
        Name and YAML of each, in the order in which they count.

    Raises
    ------
    StudyError
        A value is no YAML, a path leads through something that is no mapping, or two variables set one key.
    """
    settings: dict[tuple[str, ...], Setting] = {}
    for name, text in variables.items():
        value = _read(name, text)
        path = _set(config, name, deepcopy(value))
        if other := settings.get(path):
            raise StudyError(f"{other.variable} and {name} both set {'.'.join(path)}; leave one of them")
        settings[path] = Setting(name, path, value)
    return list(settings.values())


def value_at(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a place of a config; None where there is none."""
    found: Any = config
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _read(name: str, text: str) -> Any:
    if _EXPONENT.fullmatch(text.strip()):
        return float(text)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "not to be read"
        raise StudyError(f"{name}: {text!r} is no YAML: {problem}; quote it as in a config file") from None


def _set(config: dict[str, Any], name: str, value: Any) -> tuple[str, ...]:
    """Set one key, and make the sections above it where there are none; the path to the key."""
    path: list[str] = []
    section = config
    for part in name.removeprefix(PREFIX).split("__"):
        if not part:
            raise StudyError(f"{name}: a part of the path is empty; between two parts stand two underscores")
        if path:
            if section.get(path[-1]) is None:
                section[path[-1]] = {}
            section = section[path[-1]]
            if not isinstance(section, dict):
                whole = PREFIX + "__".join(path).upper()
                raise StudyError(f"{name}: {'.'.join(path)} is {section!r}, no mapping; set all of it by {whole}")
        path.append(_key(section, part, name))
    section[path[-1]] = value
    return tuple(path)


def _key(section: dict[str, Any], part: str, name: str) -> str:
    """The key that a part means: one that is there, in whatever case, else the part in lower case."""
    if part in section:
        return part
    alike = [key for key in section if str(key).lower() == part.lower()]
    if len(alike) > 1:
        raise StudyError(f"{name}: {part} may be {' or '.join(map(str, alike))}; write it as it is there")
    return alike[0] if alike else part.lower()
