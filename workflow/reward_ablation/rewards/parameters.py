"""Markers in the type hints of a component's parameters: how each parameter counts in a run's spec.

The spec has what decides a run's numbers: another spec is another run, which is trained. A parameter without a marker
is in the spec with its value. `NotInSpec[int]` marks a parameter that decides no score, such as a number of attempts:
changing it trains nothing again. `FilePath` and `FolderPath` mark paths that count by the content of the file or
folder, not by its location.

    def judge(completions, *, template: FilePath, attempts: NotInSpec[int] = 5, **columns): ...

Users' reward files import the markers, and so do `judge` and `reward_model`. Planning reads them when it makes specs,
and `load` when it makes paths whole.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

T = TypeVar("T")


class Mark(Enum):
    """How a parameter counts in a spec. The texts are for readers here: no message shows them."""

    NOT_IN_SPEC = "no part of it"
    FILE = "a file that counts by its content"
    FOLDER = "a folder that counts by its content"
    MODEL = "a model's folder that counts by its content, or with a revision a repository on the hub"


#: A parameter that decides no score.
NotInSpec = Annotated[T, Mark.NOT_IN_SPEC]
#: The path of a file. A relative path starts from the study's folder; the function gets the full path.
FilePath = Annotated[str, Mark.FILE]
#: The path of a folder, with the same rules as `FilePath`.
FolderPath = Annotated[str, Mark.FOLDER]

#: A saved model: the path of its folder, which counts by its content. If the config also gives a parameter `revision`,
#: the text names a repository on the hub, and the name is part of the spec. The function gets the text unchanged: the
#: workflow fetches the model of `reward_model` into another folder, which `models.reward_model` finds by this text.
ModelPath = Annotated[str, Mark.MODEL]

#: Names of the markers. A file that contains none of these names has no markers.
NAMES = ("NotInSpec", "FilePath", "FolderPath", "ModelPath")


def hints_of(function: Callable) -> dict[str, Any]:
    """Type hints of a function's arguments with their metadata; none where they cannot be evaluated."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):  # such as names that only a type checker imports
        return {}


def marks_of(function: Callable) -> dict[str, Mark]:
    """Markers by argument, for the arguments that have one. A marker may stand beside None: `FilePath | None`."""
    marks = {name: _mark(hint) for name, hint in hints_of(function).items()}
    return {name: mark for name, mark in marks.items() if mark}


def _mark(hint: Any) -> Mark | None:
    own = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Mark)), None)
    return own or next(filter(None, map(_mark, typing.get_args(hint))), None)


def with_whole_paths(function: Callable, parameters: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Parameters in which `root` precedes relative paths of files and folders; other values stay as they are."""
    paths = {name for name, mark in marks_of(function).items() if mark in (Mark.FILE, Mark.FOLDER)}
    return {
        name: str(root / value) if name in paths and isinstance(value, str) else value
        for name, value in parameters.items()
    }
