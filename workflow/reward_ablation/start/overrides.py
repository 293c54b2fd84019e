"""Applies overrides to the config: the environment wins over the file, and --config wins over the environment.

REWARD_ABLATION__TRAINING__MAX_STEPS=50 in the environment sets training.max_steps to 50.

All jobs of a start use the same config. The processes of jobs, also on other nodes, read the Snakefile again, and
Snakemake passes --config on to them. The main process passes its environment's overrides on in the same way, because
batch systems need not pass on the environment, and a node's environment may have other values. All of this is encoded
in letters that need no quotes, because Snakemake's own quotes would let a shell run text inside a value.
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

from snakemake.utils import update_config

from reward_ablation.config.secrets import without_secrets
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.start.internals import given_config, hand_to_jobs, is_main, submits_jobs
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import count_gpus
from reward_ablation.system.plain_values import printable
from reward_ablation.system.strict_text import load_yaml

#: Start of the variables' names. The parts of a key's path follow, joined by two underscores.
PREFIX = "REWARD_ABLATION__"

#: The key of --config by which a start passes its overrides on to its jobs.
JOB_OVERRIDES = "reward_ablation_overrides"

#: Path of the key that may be `auto`.
GPUS = ("launch", "gpus")

#: A number such as 1e-3, which YAML 1.1 takes for text.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


@dataclass(frozen=True)
class ConfigSource:
    """Facts on the config after all overrides."""

    #: The files and variables that the config is from, for messages.
    source: str
    #: Whether `launch.gpus` was `auto`, so that its number is that of this machine's GPUs.
    auto: bool

    def check(self, workflow: Any) -> None:
        """Refuse to submit jobs with this machine's number of GPUs; to be called in `onstart`."""
        if self.auto and submits_jobs(workflow):
            raise StudyError(
                "launch.gpus: auto means this machine's GPUs, but jobs are submitted to other machines; write how many "
                "GPUs a run takes (0 is the CPU)"
            )


class Setting(NamedTuple):
    """A value that an environment variable sets, with the path of its key in the config."""

    variable: str
    path: tuple[str, ...]
    value: Any


def apply_overrides(
    config: dict[str, Any], workflow: Any, environment: Mapping[str, str], tell: Callable[[str], None]
) -> ConfigSource:
    """Apply the overrides of the environment and of --config to a config, in place, and count the GPUs for `auto`.

    `config` is as Snakemake has read it: the file with --config. The jobs of `workflow` will get the same overrides, so
    a job uses the variables of its start instead of those in `environment`. `tell` gets a line for each override, and
    one on `auto`. Raises StudyError if a variable cannot be applied, or if the GPUs cannot be counted.
    """
    handed = config.pop(JOB_OVERRIDES, None)
    given = dict(given_config(workflow))
    start = _decoded(handed) if handed else {"variables": variables_in(environment), "given": given}
    settings = override(config, start["variables"])
    update_config(config, start["given"])
    auto = value_at(config, GPUS) == "auto"
    if auto and not handed:
        start["gpus"], device = count_gpus()
        tell(f"launch.gpus: auto is {start['gpus']} here: {device}")
    if auto:
        config["launch"]["gpus"] = start["gpus"]
    if is_main(workflow):
        hand_to_jobs(workflow, f"{JOB_OVERRIDES}={_encoded(start)}")
        for variable, path, value in settings:
            overruled = path != GPUS and value_at(config, path) != value
            note = "; --config has another value, which wins" if overruled else ""
            nested = reduce(lambda below, key: {key: below}, reversed(path), value)
            shown = value_at(without_secrets(nested), path)
            tell(printable(f"{'.'.join(path)}: {json.dumps(shown, default=str)}, by {variable}{note}"))
    return ConfigSource(" + ".join([*map(str, workflow.configfiles), *start["variables"]]), auto)


def _encoded(values: Any) -> str:
    """Values as JSON, encoded in letters that neither a shell nor Snakemake changes."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def _decoded(text: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(text))


def variables_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that set keys of a study. Variables for sections come before variables for keys in the sections.

    A variable with a single underscore before a section's name is refused: it would have no effect, and the user would
    not notice.
    """
    one_underscore = PREFIX.removesuffix("_")
    for name in sorted(environment):
        if not name.startswith(one_underscore) or name.startswith(PREFIX):
            continue
        rest = name.removeprefix(one_underscore)
        for section in StudyConfig.model_fields:
            if f"{rest.lower()}_".startswith(f"{section}_"):
                meant = "__".join(filter(None, [section.upper(), rest[len(section) :].lstrip("_")]))
                raise StudyError(f"{name}: has no effect; {section} is set by {PREFIX}{meant}, with two underscores")
    names = sorted(name for name in environment if name.startswith(PREFIX))
    return {name: environment[name] for name in sorted(names, key=lambda name: name.removeprefix(PREFIX).count("__"))}


def override(config: dict[str, Any], variables: Mapping[str, str]) -> list[Setting]:
    """Set the keys of a config, in place, that variables name. A mapping replaces the whole value in the config.

    `variables` has the YAML of each variable, in the order in which they are applied. Raises StudyError if a value is
    not YAML, if a path leads through a value that is not a mapping, or if two variables set one key.
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
    """The value at a path of a config; None where the config has no such key."""
    value: Any = config
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _read(name: str, text: str) -> Any:
    if _EXPONENT.fullmatch(text.strip()):
        return float(text)
    try:
        return load_yaml(text)
    except ValueError as error:
        raise StudyError(f"{name}: {text!r}: {error}; quote the value as in a config file") from None


def _set(config: dict[str, Any], name: str, value: Any) -> tuple[str, ...]:
    """Set one key, make missing sections above it, and return the path of the key."""
    path: list[str] = []
    section = config
    for part in name.removeprefix(PREFIX).split("__"):
        if not part:
            raise StudyError(f"{name}: a part of the path is empty; write two underscores between two parts")
        if path:
            if section.get(path[-1]) is None:
                section[path[-1]] = {}
            section = section[path[-1]]
            if not isinstance(section, dict):
                whole = PREFIX + "__".join(path).upper()
                raise StudyError(f"{name}: {'.'.join(path)} is {section!r}, not a mapping; set all of it by {whole}")
        path.append(_key(section, part, name))
    section[path[-1]] = value
    return tuple(path)


def _key(section: dict[str, Any], part: str, name: str) -> str:
    """The key that a part of a variable's name means: an existing key in any case, else the part in lower case."""
    if part in section:
        return part
    alike = [key for key in section if str(key).lower() == part.lower()]
    if len(alike) > 1:
        raise StudyError(
            f"{name}: {part} may be {' or '.join(map(str, alike))}; write the key exactly as in the config"
        )
    return alike[0] if alike else part.lower()
