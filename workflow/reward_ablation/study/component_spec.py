"""From a component of the config to its spec: which of its parameters decide scores, and which do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from reward_ablation.config.config_errors import describe
from reward_ablation.config.sections.model import HubModel
from reward_ablation.config.sections.training import Component
from reward_ablation.spec.parts import ComponentSpec
from reward_ablation.study.reward_files import function_digest
from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256

if TYPE_CHECKING:
    from reward_ablation.rewards.parameters import Mark


class Divided(NamedTuple):
    """A component's parameters, divided by whether they are part of the spec."""

    deciding: dict[str, Any]  # parameters in the spec
    others: dict[str, Any]  # parameters that are not in the spec
    contents: dict[str, str]  # digests of the files and folders that parameters name, by parameter


def component_spec(component: Component, root: Path, name: str) -> ComponentSpec:
    """The spec of a component. Relative paths start from the root.

    The spec contains a user's file as a digest of the file's syntax tree and of the trees of the files that it imports.
    It contains a function of an installed module as a digest of the files of its package. It contains a parameter that
    names a file or a folder as a digest of the content. It leaves out a parameter that decides no score: see
    `rewards.parameters`.

    Raises StudyError, with the component's `name` in the message, if a file is missing or a parameter is not as it
    should be.
    """
    spec = ComponentSpec.model_validate(component.model_dump(exclude={"scored"}))
    try:
        divided = divide(spec.function, spec.parameters, root)
        code = function_digest(spec.function, root)
    except StudyError as error:
        raise StudyError(f"components.{name}: {str(error).removeprefix('components: ')}") from None
    own: dict[str, Any] = {"parameters": divided.deciding, "contents": divided.contents, "code": code}
    return spec.model_copy(update={name: value for name, value in own.items() if value is not None})


def divide(function: str, parameters: dict[str, Any], root: Path, marks: dict[str, Mark] | None = None) -> Divided:
    """Divide a component's parameters by their markers. Relative paths start from the root.

    `marks` are the markers, if they are known; else those that planning reads, which imports no user's file. Raises
    StudyError if a file or folder that a parameter names is missing, or if an environment variable holds its path.
    """
    from reward_ablation.study.reward_import import planned_marks  # here, because it imports the grader

    marks = _present_marks(planned_marks(function, root) if marks is None else marks, parameters)
    deciding = {name: value for name, value in parameters.items() if name not in marks}
    others = {name: value for name, value in parameters.items() if name in marks}
    contents = {name: _content(name, value, marks[name], root) for name, value in others.items() if value is not None}
    return Divided(deciding, others, {name: digest for name, digest in contents.items() if digest})


def _content(name: str, value: Any, mark: Mark, root: Path) -> str | None:
    """Digest of the file or folder that a parameter names; None for a parameter that decides no score."""
    from reward_ablation.rewards.parameters import Mark  # here, because its package imports the grader

    if mark is Mark.NOT_IN_SPEC:
        return None
    if not isinstance(value, str):
        raise StudyError(f"components: {name}: give the path in the config: the content there decides the runs' keys")
    return _digest(root / value, mark, f"components: {name}: {value}")


def _present_marks(marks: dict[str, Mark], parameters: dict[str, Any]) -> dict[str, Mark]:
    """Markers of a component's parameters, but none of a hub model, since the spec has its name and commit."""
    from reward_ablation.rewards.parameters import Mark  # here, because its package imports the grader

    revision = parameters.get("revision")
    if revision is None:
        return marks
    for name in [name for name, mark in marks.items() if mark is Mark.MODEL and name in parameters]:
        try:
            HubModel(id=parameters[name], revision=revision)
        except ValidationError as error:
            raise StudyError(f"components: {name}: {describe(error, {}).partition(': ')[2]}") from None
    return {name: mark for name, mark in marks.items() if mark is not Mark.MODEL}


def contents_without_models(function: str, parameters: dict[str, Any], root: Path) -> dict[str, str]:
    """The `contents` of `divide`, without folders of models. For a job, which imports the user's file anyway."""
    from reward_ablation.rewards.load import marks_of_component  # here, because it imports the grader
    from reward_ablation.rewards.parameters import Mark

    marks = marks_of_component(function, root)
    others = {name: value for name, value in parameters.items() if marks.get(name) is not Mark.MODEL}
    return divide(function, others, root, marks).contents


def _digest(path: Path, mark: Mark, where: str) -> str:
    """Digest of a file or folder."""
    from reward_ablation.rewards.parameters import Mark  # here, because its package imports the grader

    if mark is Mark.FILE:
        if not os.path.isfile(path):  # Path.is_file raises where a name is too long
            raise StudyError(f"{where}: no such file; a relative path starts from the study's folder")
        return sha256(path)
    if not os.path.isdir(path) and mark is Mark.MODEL:
        raise StudyError(
            f"{where}: no such folder; for a model from the hub give `revision` too, the full hash of a commit"
        )
    if not os.path.isdir(path):
        raise StudyError(f"{where}: no such folder; a relative path starts from the study's folder")
    if not os.path.isfile(path / "config.json"):
        raise StudyError(f"{where}: no config.json; give a folder with a saved transformers model")
    return folder_fingerprint(path)
