"""Relative paths in a config start from the folder of its file. They are spelled anew from the working folder here.

Everything behind, the commands of jobs included, reads paths from the working folder. Where both folders are one, as in
most studies, nothing is spelled anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.system.errors import StudyError

#: A function in a file: the file's path, and the function's name.
_IN_A_FILE = re.compile(r"(?P<path>[^:]+\.py)(?P<function>:\w+)?")
#: Sections with sources of data and models, whose key `path` names a file or a folder.
_SOURCES = ("model", "data", "sft")


class _Place(NamedTuple):
    """A value of a config that has a path: the mapping that has it, its key there, and its place for messages."""

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
    """Spell the relative paths of a config, as its `file` has them, from the working folder `root`, in place.

    Raises StudyError for a path that leads nowhere from the file's folder, and somewhere from the working folder, which
    was its meaning in earlier versions. `tell` gets a line where both lead somewhere. `known` is the config of the
    files before this one, which may have the functions whose parameters this one changes.
    """
    folder = Path(os.path.realpath(file.parent))  # where `..` leads as the system follows it
    if not folder.is_dir() or folder.samefile(root):
        return
    root = Path(os.path.realpath(root))
    for place in [*_sources(config), *_functions(config)]:
        _respell(place, folder, file, root, tell)
    for place in _marked(config, known or {}, root):  # by the functions, whose paths are from the working folder by now
        _respell(place, folder, file, root, tell)


def _respell(place: _Place, folder: Path, file: Path, root: Path, tell: Callable[[str], None]) -> None:
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


def _sources(config: dict[str, Any]) -> Iterator[_Place]:
    """Paths of models and data files."""
    for name in _SOURCES:
        yield from _below(config.get(name), name, "path")


def _functions(config: dict[str, Any]) -> Iterator[_Place]:
    """Functions in files: of components, of metrics, and of methods of combination."""
    for where, component in _components(config):
        yield from _texts(component, "function", where)
    yield from _below(config.get("arms"), "arms", "combine")
    yield from _below(config.get("arms"), "arms", "method")
    metrics = _mapping(_mapping(config.get("evaluation")).get("metrics"))
    yield from (
        place for name, each in metrics.items() for place in _texts(each, "function", f"evaluation.metrics.{name}")
    )


def _marked(config: dict[str, Any], known: dict[str, Any], root: Path) -> Iterator[_Place]:
    """Parameters of components and metrics that name files or folders, by the functions' type hints."""
    from reward_ablation.rewards.parameters import Mark  # here, because it is seldom needed
    from reward_ablation.study.reward_import import planned_marks

    metrics = _mapping(_mapping(config.get("evaluation")).get("metrics"))
    scoring = [*_components(config), *((f"evaluation.metrics.{name}", each) for name, each in metrics.items())]
    for where, each in scoring:
        parameters = _mapping(each).get("parameters")
        function = _mapping(each).get("function", _function_of(known, where))
        if not (isinstance(parameters, dict) and isinstance(function, str)):
            continue
        try:
            marks = planned_marks(function, root)
        except (StudyError, ValueError):  # told where the config is checked
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


def _components(config: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(f"components.{name}", each) for name, each in _mapping(config.get("components")).items()]


def _below(value: Any, where: str, key: str) -> Iterator[_Place]:
    """Every text at a key of a value, at any depth. A method of combination without a file is none."""
    if isinstance(value, dict):
        for place in _texts(value, key, where):
            if key == "path" or _IN_A_FILE.fullmatch(value[key]):
                yield place
        for name, each in value.items():
            if name not in ("columns", "parameters"):  # whose keys are the user's
                yield from _below(each, f"{where}.{name}", key)


def _texts(section: Any, key: str, where: str) -> Iterator[_Place]:
    text = _mapping(section).get(key)
    if isinstance(text, str) and (key != "function" or _IN_A_FILE.fullmatch(text)):
        yield _Place(section, key, f"{where}.{key}")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
