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
    """A key that a variable has set.

    Attributes
    ----------
    variable : str
    path : tuple of str
        The key's place in the config.
    value : Any
    """

    variable: str
    path: tuple[str, ...]
    value: Any


def variables_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that set keys of a study, those of sections before those of keys in them.

    Raises
    ------
    StudyError
        One has a single underscore before a section's name: it would set nothing, and nobody would know.
    """
    names = sorted(name for name in environment if name.startswith(PREFIX))
    for name in sorted(environment):
        section, rest = _missed(name)
        if section:
            raise StudyError(f"{name}: sets nothing; {section} is set by {PREFIX}{rest}, with two underscores")
    return {name: environment[name] for name in sorted(names, key=lambda name: len(_parts(name)))}


def override(config: dict[str, Any], variables: Mapping[str, str]) -> list[Setting]:
    """Set the keys of a config, in place, that variables name; a mapping takes the place of what is there.

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
    values = {name: _read(name, text) for name, text in variables.items()}
    settings = [Setting(name, _set(config, name, deepcopy(value)), value) for name, value in values.items()]
    by_path: dict[tuple[str, ...], str] = {}
    for variable, path, _ in settings:
        if (other := by_path.setdefault(path, variable)) != variable:
            raise StudyError(f"{other} and {variable} both set {'.'.join(path)}; leave one of them")
    return settings


def value_at(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a place of a config; None where there is none."""
    found: Any = config
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _missed(name: str) -> tuple[str, str]:
    """The section that a variable means, and its name in full, where it has but one underscore; else empty."""
    one = PREFIX.removesuffix("_")
    rest = "" if name.startswith(PREFIX) or not name.startswith(one) else name.removeprefix(one)
    for section in StudyConfig.model_fields:
        if rest.lower() == section or rest.lower().startswith(f"{section}_"):
            below = rest[len(section) :].lstrip("_")
            return section, "__".join(filter(None, [section.upper(), below]))
    return "", ""


def _parts(name: str) -> list[str]:
    return name.removeprefix(PREFIX).split("__")


def _read(name: str, text: str) -> Any:
    if _EXPONENT.fullmatch(text.strip()):
        return float(text)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "not to be read"
        raise StudyError(f"{name}: {text!r} is no YAML: {problem}; quote it as in a config file") from None


def _set(config: dict[str, Any], name: str, value: Any) -> tuple[str, ...]:
    """Set one key; the path to it."""
    path: list[str] = []
    section = config
    for part in _parts(name):
        if not part:
            raise StudyError(f"{name}: a part of the path is empty; between two parts stand two underscores")
        if path:
            section = _section(section, path[-1], path, name)
        path.append(_key(section, part, name))
    section[path[-1]] = value
    return tuple(path)


def _section(parent: dict[str, Any], key: str, path: list[str], name: str) -> dict[str, Any]:
    """The mapping below a key, made where there is none."""
    if parent.get(key) is None:
        parent[key] = {}
    if not isinstance(parent[key], dict):
        whole = PREFIX + "__".join(path).upper()
        raise StudyError(f"{name}: {'.'.join(path)} is {parent[key]!r}, no mapping; set all of it by {whole}")
    return parent[key]


def _key(section: dict[str, Any], part: str, name: str) -> str:
    """The key that a part means: one that is there, in whatever case, else the part in lower case."""
    if part in section:
        return part
    alike = [key for key in section if str(key).lower() == part.lower()]
    if len(alike) > 1:
        raise StudyError(f"{name}: {part} may be {' or '.join(map(str, alike))}; write it as it is there")
    return alike[0] if alike else part.lower()
