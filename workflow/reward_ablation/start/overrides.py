"""The config that counts: of the file, the environment and the command line, and the same in all jobs of a start.

REWARD_ABLATION__TRAINING__MAX_STEPS=50 in the environment is training.max_steps: 50.

Snakemake reads the Snakefile again in the processes of jobs, on other nodes too, and hands them what --config said.
What the environment said goes with it: batch systems need not hand the environment on, and a node's may say something
else. What --config said goes the same way, in letters that need no quotes: Snakemake's own quotes let a shell run what
stands in a value.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import yaml
from snakemake.utils import update_config

from reward_ablation.config.secrets import without_secrets
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.start.internals import given_config, hand_to_jobs, is_main, submits_jobs
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import what_is_here
from reward_ablation.system.plain_values import printable

#: What the names of variables begin with; the parts of a key's path follow, with two underscores between them.
PREFIX = "REWARD_ABLATION__"

#: The key of --config by which jobs get what this start has found.
HANDED = "reward_ablation_overrides"

#: The place of the key that may be `auto`.
GPUS = ("launch", "gpus")

#: A number that YAML 1.1 takes for text, and people write in a shell.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


@dataclass(frozen=True)
class Settled:
    """Where the config that counts is from, for messages, and whether its number of GPUs is what this machine has."""

    source: str
    auto: bool

    def check(self, workflow: Any) -> None:
        """Refuse to submit jobs that would take what is on this machine; to be called in `onstart`."""
        if self.auto and submits_jobs(workflow):
            raise StudyError(
                "launch.gpus: auto is what this machine has, and jobs are submitted to others; say how many GPUs a run "
                "takes (0 is the CPU)"
            )


class Setting(NamedTuple):
    """A key of the config that a variable sets, by its path."""

    variable: str
    path: tuple[str, ...]
    value: Any


def settle(
    config: dict[str, Any], workflow: Any, environment: Mapping[str, str], tell: Callable[[str], None]
) -> Settled:
    """Set in a config, in place, what the environment says, and the GPUs that are here for `auto`; --config wins.

    Snakemake has read the config: the file with --config. A StudyError says which variable cannot be taken, or that
    the GPUs cannot be counted.
    """
    handed = config.pop(HANDED, None)
    given = dict(given_config(workflow))
    start = _decoded(handed) if handed else {"variables": variables_in(environment), "given": given}
    settings = override(config, start["variables"])
    update_config(config, start["given"])
    auto = value_at(config, GPUS) == "auto"
    if auto and not handed:
        start["gpus"], found = what_is_here()
        tell(f"launch.gpus: auto is {start['gpus']} here: {found}")
    if auto:
        config["launch"]["gpus"] = start["gpus"]
    if is_main(workflow):
        hand_to_jobs(workflow, f"{HANDED}={_encoded(start)}")
        for variable, path, value in settings:
            wins = "" if path == GPUS or value_at(config, path) == value else "; --config says otherwise, and counts"
            nested = reduce(lambda below, key: {key: below}, reversed(path), value)
            shown = value_at(without_secrets(nested), path)
            tell(printable(f"{'.'.join(path)}: {json.dumps(shown, default=str)}, by {variable}{wins}"))
    return Settled(" + ".join([*map(str, workflow.configfiles), *start["variables"]]), auto)


def _encoded(values: Any) -> str:
    """JSON in letters that neither a shell nor Snakemake changes."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def _decoded(text: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(text))


def variables_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that set keys of a study, those of sections before those of keys in them.

    A variable with a single underscore before a section's name is refused: it would set nothing, and nobody would know.
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

    `variables` has the YAML of each variable, in the order in which they count.

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
