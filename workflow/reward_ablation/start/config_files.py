"""Config files: read as they are meant, and refused where Snakemake would read them otherwise.

The Snakefile and all commands read the study's files here, and `import` its own. The Slurm executor calls
`check_config_files`, because Snakemake imports its plugins before it reads any config file.

Relative paths in a config start from the folder of its file. They are spelled anew from the working folder here. All
else, the commands of jobs included, reads paths from the working folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.strict_text import DuplicateKey, load_json, load_yaml

#: The option that takes all words up to the next option as config files; and the shortest abbreviation of its name
#: that Snakemake does not take for `--config`.
CONFIG_OPTION = "--configfiles"
SHORTEST_CONFIG_OPTION = "--configf"
PROFILE_OPTIONS = ("--profile", "--workflow-profile")
CONFIG_ENDINGS = (".yaml", ".yml", ".json")
#: The key with which Snakemake runs expressions in a config as Python.
_TEMPLATE = "__use_yte__"
#: A function in a file: the file's path, and the function's name.
_IN_A_FILE = re.compile(r"(?P<path>[^:]+\.py)(?P<function>:\w+)?")
#: Places whose keys are names of data sets and arms.
_NAMED = ("data.evaluation", "arms.arms", "arms.extra")
#: Sections with sources of data and models, whose key `path` names a file or a folder.
_SOURCES = ("model", "data", "sft")


def check_config_files(words: Sequence[str]) -> None:
    """Refuse config files among Snakemake's arguments that `contents_of` refuses, and a target taken for a file."""
    given: list[str] = []
    for first, *files in _with_values(words):
        option, equals, file = first.partition("=")
        if option == "--config":
            given += [file, *files] if equals else files
        elif first.startswith("-C"):
            given += [first[2:], *files] if first[2:] else files
        elif option in PROFILE_OPTIONS:
            check_profile(file if equals else files[0] if files else "")
        if not (option.startswith(SHORTEST_CONFIG_OPTION) and CONFIG_OPTION.startswith(option)):
            continue
        files = [file] if equals else files
        for number, file in enumerate(files):
            if number and not file.endswith(CONFIG_ENDINGS):
                raise StudyError(
                    f"{file}: is not a config file, but {option} takes all words up to the next option as files; type: "
                    f"snakemake {shlex.join(files[number:])} {option} {shlex.join(files[:number])}"
                )
            if not Path(file).exists() or Path(file).is_dir():
                raise StudyError(f"{option} {file}: no such file; name a config, such as config/demo.yaml")
        for file in files:
            if Path(file).is_file():  # a pipe can be read once only
                contents_of(file)
    _check_values_given(given)


def check_profile(name: str) -> None:
    """Refuse a profile in which a key occurs twice. A profile that Snakemake finds elsewhere is not checked."""
    folder = Path(name)
    for path in [folder] if folder.is_file() else sorted(folder.glob("config*.yaml")) if name else []:
        try:
            load_yaml(path.read_text(encoding="utf-8"))
        except DuplicateKey as error:
            raise StudyError(f"{path}: {error}") from None
        except (OSError, ValueError):  # Snakemake itself says what is wrong
            continue


def _check_values_given(words: Iterable[str]) -> None:
    """Refuse a key that occurs twice, also in a value of `--config`. Snakemake takes what is not YAML for text."""
    keys = set()
    for word in words:
        key, equals, text = word.partition("=")
        if equals and key in keys:
            raise StudyError(f"--config {key}: is given twice; take one of the two out")
        keys.add(key)
        try:
            load_yaml(text)
        except DuplicateKey as error:
            raise StudyError(f"--config {key}: {error}") from None
        except ValueError:
            continue


def read_config(files: Iterable[Path], tell: Callable[[str], None]) -> dict[str, Any]:
    """The config of files, of which later ones change earlier ones, with paths from the working folder."""
    config: dict[str, Any] = {}
    for number, file in enumerate(files):
        if number and file.is_file() and not str(file).endswith(CONFIG_ENDINGS):
            raise StudyError(f"{file}: is not a config file; let its name end in {' or '.join(CONFIG_ENDINGS)}")
        if not file.exists() or file.is_dir():
            raise StudyError(f"{file}: no such file; name a config, such as config/demo.yaml")
        content = contents_of(file)
        if not isinstance(content, dict):
            raise StudyError(f"{file}: is not a mapping; write the study's keys, as in config/demo.yaml")
        if file.is_file():  # a pipe has no folder
            from_working_folder(content, file, tell, known=config)
        merge(config, content)
    return config


def merge(config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Change the keys of a config that are given, in place. Mappings are merged, as by Snakemake's --config."""
    for key, value in given.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            merge(config[key], value)
        else:
            config[key] = deepcopy(value)


@one_line_errors()
def refuse_command(command: str, files: Sequence[str | Path], wildcards: Any) -> NoReturn:
    """Input function of a target that became a command: says what to type in place of `snakemake COMMAND`."""
    names = shlex.join(os.path.relpath(file) for file in files)
    raise StudyError(f"{command}: is a command of its own; type: reward-ablation {command} {names}")


def contents_of(file: str | Path) -> Any:
    """What a config file says, read as JSON, and else as YAML."""
    # Refused is what Snakemake would read otherwise: it keeps the last of two equal keys, has no place in its messages,
    # and runs Python from a file that says so.
    try:
        text = Path(file).read_text(encoding="utf-8")
        try:
            written = load_json(text)
        except json.JSONDecodeError:
            written = load_yaml(text)
        if isinstance(written, dict) and written.get(_TEMPLATE):
            raise ValueError(f"{_TEMPLATE}: would run Python from the config; write out the values")
    except OSError as error:
        raise StudyError(f"{file}: {error.strerror}; name the file of a study") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{file}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except ValueError as error:
        raise StudyError(f"{file}: {error}") from None
    return written


def _with_values(words: Sequence[str]) -> list[list[str]]:
    """Each option with the words that follow the option."""
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("-"):
            groups.append([word])
        elif groups:
            groups[-1].append(word)
    return groups


class _Place(NamedTuple):
    """A value of a config that has a path: its section, its key there, and the key's whole path for messages."""

    section: dict[str, Any]
    key: str
    where: str


def from_working_folder(
    config: dict[str, Any],
    file: Path,
    tell: Callable[[str], None],
    root: Path = Path(),
    known: dict[str, Any] | None = None,
) -> None:
    """Spell relative paths of a `file`'s config from the folder `root`, in place. `known` is the config before it."""
    folder = Path(os.path.realpath(file.parent))  # where `..` leads as the system follows it
    if not folder.is_dir() or folder.samefile(root):
        return
    root = Path(os.path.realpath(root))
    for place in [*_sources_and_functions(config)]:
        _respell(place, folder, file, root, tell)
    for place in _marked(config, known or {}, root):  # by the functions, whose paths are from the working folder by now
        _respell(place, folder, file, root, tell)


def _respell(place: _Place, folder: Path, file: Path, root: Path, tell: Callable[[str], None]) -> None:
    """Spell one path anew, from its config's `folder` to the working folder `root`. Refuse one that only `root` has."""
    written = place.section[place.key]
    found = _IN_A_FILE.fullmatch(written)
    path, function = (found["path"], found["function"] or "") if found else (written, "")
    if not path or os.path.isabs(path) or path.startswith("~"):
        return
    in_root, beside = os.path.normpath(root / path), os.path.normpath(folder / path)
    here, there = os.path.exists(in_root), os.path.exists(beside)
    if here and not there:
        meant = f"{os.path.relpath(in_root, folder)}{function}"
        raise StudyError(f"{file}: {place.where}: {written}: paths start from the config's folder now; write {meant}")
    if here and not os.path.samefile(in_root, beside):
        tell(f"warning: {place.where}: {path} is in two folders; that beside {file} counts")
    place.section[place.key] = f"{os.path.relpath(beside, root)}{function}"


def _sources_and_functions(config: dict[str, Any]) -> Iterator[_Place]:
    """Paths of models and data; functions in files: of components, of metrics, and of methods of combination."""
    for name in _SOURCES:
        yield from _below(config.get(name), name, "path")
    for where, each in _scoring(config):
        yield from _texts(each, "function", where)
    yield from _below(config.get("arms"), "arms", "combine")
    yield from _below(config.get("arms"), "arms", "method")


def _marked(config: dict[str, Any], known: dict[str, Any], root: Path) -> Iterator[_Place]:
    """Parameters of components and metrics that name files or folders, by the functions' type hints."""
    from reward_ablation.rewards.parameters import Mark  # here, because it is seldom needed
    from reward_ablation.study.reward_import import planned_marks

    for where, each in _scoring(config):
        parameters = _mapping(each).get("parameters")
        function = _mapping(each).get("function", _function_of(known, where))
        if not (isinstance(parameters, dict) and isinstance(function, str)):
            continue
        try:
            marks = planned_marks(function, root)
        except (StudyError, ValueError):  # refused where the config is checked
            continue
        for name, mark in marks.items():
            is_of_hub = mark is Mark.MODEL and "revision" in parameters
            if mark is not Mark.NOT_IN_SPEC and not is_of_hub:
                yield from _texts(parameters, name, f"{where}.parameters")


def _function_of(config: dict[str, Any], where: str) -> Any:
    """The function of a component or metric in a config, by its place, such as `components.brevity`."""
    for name in where.split("."):
        config = _mapping(config.get(name))
    return config.get("function")


def _scoring(config: dict[str, Any]) -> list[tuple[str, Any]]:
    """Components and metrics, by their places in the config."""
    metrics = _mapping(_mapping(config.get("evaluation")).get("metrics"))
    sections = {"components": _mapping(config.get("components")), "evaluation.metrics": metrics}
    return [(f"{section}.{name}", each) for section, named in sections.items() for name, each in named.items()]


def _below(value: Any, where: str, key: str) -> Iterator[_Place]:
    """Every text at a key of a value, at any depth. A method of combination without a file is none."""
    if isinstance(value, dict):
        for place in _texts(value, key, where):
            if key == "path" or _IN_A_FILE.fullmatch(value[key]):
                yield place
        for name, each in value.items():
            if where in _NAMED or name not in ("columns", "parameters"):  # whose keys are the user's
                yield from _below(each, f"{where}.{name}", key)


def _texts(section: Any, key: str, where: str) -> Iterator[_Place]:
    text = _mapping(section).get(key)
    if isinstance(text, str) and (key != "function" or _IN_A_FILE.fullmatch(text)):
        yield _Place(section, key, f"{where}.{key}")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
