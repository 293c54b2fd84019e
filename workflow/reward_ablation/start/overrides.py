"""Overrides of a config: the environment wins over the file, and --config wins over the environment.

REWARD_ABLATION__TRAINING__MAX_STEPS=50 in the environment sets training.max_steps to 50.

The Snakefile and all commands that take a study get their config from here. A start writes the result to a file, and
the Snakemake of a job reads that file instead of asking its own environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.config.secrets import without_secrets
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.start.config_files import merge, read_config
from reward_ablation.system.errors import StudyError, storage_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.gpus import count_gpus
from reward_ablation.system.plain_values import printable
from reward_ablation.system.strict_text import load_json, load_yaml

#: Start of the variables' names. The parts of a key's path follow, joined by two underscores.
PREFIX = "REWARD_ABLATION__"
#: Variable by which `reward-ablation run` hands the values of --config to Snakemake, as JSON. Snakemake itself would
#: read numbers in lists as texts.
GIVEN = "REWARD_ABLATION_GIVEN"
#: Path of the key that may be `auto`.
GPUS = ("launch", "gpus")
#: Why jobs that go to other machines are refused with `auto`.
AUTO = (
    "launch.gpus: auto means this machine's GPUs, but jobs are submitted to other machines; write how many GPUs a run "
    "takes (0 is the CPU)"
)
#: A number such as 1e-3, which YAML 1.1 takes for text.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


class Setting(NamedTuple):
    """A value that an environment variable sets, with the path of its key in the config."""

    variable: str
    path: tuple[str, ...]
    value: Any


def values_given(words: Iterable[str]) -> dict[str, Any]:
    """The values of `KEY=VALUE` words, each a YAML value. Snakemake itself would read numbers in lists as texts."""
    given: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (equals and key.isidentifier()):
            raise StudyError(f"--config {word}: is not KEY=VALUE; write such as --config seeds=[0,1]")
        if key in given:
            raise StudyError(f"--config {key}: is given twice; take one of the two out")
        given[key] = value_of(f"--config {key}", text)
    return given


def variables_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that set keys, sections before keys in them. A single underscore would have no effect: refused."""
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
    """Set the keys that variables name with YAML, in place and in order; a mapping replaces the whole value."""
    settings: dict[tuple[str, ...], Setting] = {}
    for name, text in variables.items():
        value = value_of(name, text)
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


def _differs(value: Any, before: Any, after: Any) -> bool:
    """Whether two values differ at some key that `value` has; what only they have does not count."""
    if isinstance(value, Mapping) and isinstance(before, Mapping) and isinstance(after, Mapping):
        return any(_differs(each, before.get(key), after.get(key)) for key, each in value.items())
    return bool(before != after)


def value_of(name: str, text: str) -> Any:
    """The value of a YAML text that the option or variable `name` has."""
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


#: The file, in the results folder; and the key of --config by which a job's Snakemake gets its path. A config may have
#: absolute paths, and logs are the one folder of a study that is not for sharing.
FILE, HANDED = "logs/config.json", "reward_ablation_config"


@dataclass(frozen=True)
class StartConfig:
    """The config after all overrides."""

    config: dict[str, Any]
    source: str  # the files and variables that the config is from, for messages
    auto: bool  # whether `launch.gpus` was `auto`, so that its number is that of this machine's GPUs

    def hand_on(self, results: Path, submits: bool) -> str:
        """Write the config for the jobs, and return the entry of --config by which a job's Snakemake reads it."""
        if self.auto and submits:
            raise StudyError(AUTO)
        with storage_errors(results), atomic_path(results / FILE, durable=False) as temporary:
            temporary.write_text(json.dumps(self.config), encoding="utf-8")  # in order: an arm's place counts
        return f"{HANDED}={results / FILE}"  # a folder of the study needs no quotes


def config_of_start(
    config: dict[str, Any],
    configfiles: Sequence[str | Path],
    given: Mapping[str, Any],
    environment: Mapping[str, str],
    tell: Callable[[str], None],
) -> StartConfig:
    """Replace the content of `config`: files are read anew, and a job's Snakemake reads the config of its start."""
    if file := config.pop(HANDED, None):
        settled = StartConfig(load_json(Path(file).read_bytes()), str(file), auto=False)
    else:
        files = [Path(file) for file in configfiles]
        given = json.loads(environment[GIVEN]) if GIVEN in environment else given
        are_files = bool(files) and all(file.is_file() for file in files)  # a pipe can be read once only
        written = read_config(files, tell) if are_files else deepcopy(config)
        settled = with_overrides(written, files, given, environment, tell)
    config.clear()
    config.update(settled.config)
    return settled


def with_overrides(
    config: dict[str, Any],
    files: Iterable[Path],
    given: Mapping[str, Any],
    environment: Mapping[str, str],
    tell: Callable[[str], None],
) -> StartConfig:
    """Apply the environment and then --config to the config of files, and count the GPUs for `auto`."""
    variables = variables_in(environment)
    settings = override(config, variables)
    before = deepcopy(config)
    merge(config, given)
    for variable, path, value in settings:
        overruled = path != GPUS and _differs(value, value_at(before, path), value_at(config, path))
        note = "; --config has another value, which wins" if overruled else ""
        shown = without_secrets(value, path[-1])
        tell(printable(f"{'.'.join(path)}: {json.dumps(shown, default=str)}, by {variable}{note}"))
    auto = value_at(config, GPUS) == "auto"
    if auto:
        number, device = count_gpus()
        tell(f"launch.gpus: auto is {number} here: {device}")
        config["launch"]["gpus"] = number
    return StartConfig(config, " + ".join([*map(str, files), *variables]), auto)
