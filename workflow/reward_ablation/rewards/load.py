"""From a component's name in the config to a function, with its parameters checked."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reward_ablation.study.errors import StudyError

Scores = list[float | None]
RewardFunction = Callable[..., Scores]

_COMPONENTS = "reward_ablation.rewards.components"


def component_names() -> list[str]:
    """Names of the components that come with the workflow."""
    folder = Path(__file__).with_name("components")
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def load_component(function: str, parameters: dict[str, Any], root: Path) -> RewardFunction:
    """Reward function of a component, its parameters set.

    Parameters
    ----------
    function : str
        A name from `component_names`, or ``path/to/file.py:function``.
    parameters : dict
        Keyword arguments; checked by name against the signature, and by value against its type hints.
    root : Path
        Folder that a relative path starts from.

    Returns
    -------
    callable ``(completions, **columns) -> list[float | None]``
        Its ``__name__`` is the function's; TRL names a metric by it, so the caller sets it to the
        component's own name.

    Raises
    ------
    StudyError
        One line: an unknown name, a missing file or function, a file that cannot be loaded, a
        parameter that is unknown, missing, of a wrong type, or at odds with another one.
    """
    in_a_file = ":" in function or function.endswith(".py")
    found = _from_file(function, root) if in_a_file else _by_name(function)
    if inspect.iscoroutinefunction(found):
        raise StudyError(f"components: {function}: is async; a component is a plain function")
    _check_parameters(function, found, parameters)
    if not in_a_file:  # a user's function need not know what to do with no completions
        _check_together(function, found, parameters)

    # A column of the same name sets no parameter, and no keyword-only one that is left at its default.
    taken = {*parameters, *(a.name for a in inspect.signature(found).parameters.values() if a.kind is a.KEYWORD_ONLY)}

    def component(completions: list, **columns: Any) -> Scores:
        return found(completions, **{key: column for key, column in columns.items() if key not in taken}, **parameters)

    component.__name__ = found.__name__
    component.__doc__ = found.__doc__
    return component


def _by_name(name: str) -> RewardFunction:
    if name not in component_names():
        raise StudyError(
            f"components: unknown function {name!r}; functions here: {', '.join(component_names())}, "
            "or path/to/file.py:function"
        )
    return getattr(importlib.import_module(f"{_COMPONENTS}.{name}"), name)


def _from_file(reference: str, root: Path) -> RewardFunction:
    file, _, name = reference.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise StudyError(f"components: {reference!r} is no path/to/file.py:function")
    path = Path(root) / file
    if not path.is_file():
        raise StudyError(f"components: {reference}: there is no file {file} in {Path(root).resolve()}")
    spec = importlib.util.spec_from_file_location(f"user_component_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    try:
        with _imports_from(Path(root)):
            spec.loader.exec_module(module)  # type: ignore[union-attr]
    except Exception as error:
        raise StudyError(f"components: {reference}: {file} does not load: {type(error).__name__}: {error}") from error
    functions = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
    if name not in functions:
        raise StudyError(
            f"components: {reference}: no function {name!r}; functions there: {', '.join(functions) or 'none'}"
        )
    return getattr(module, name)


@contextmanager
def _imports_from(root: Path) -> Iterator[None]:
    """Have imports find the folder first, as they do in the jobs, which run there by `python -m`."""
    sys.path.insert(0, str(root.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(root.resolve()))


def _check_parameters(reference: str, function: RewardFunction, parameters: dict[str, Any]) -> None:
    """Refuse a parameter that the function does not have, lacks, or that its type hint excludes.

    Parameters are the keyword-only arguments and those with a default; an argument without one is a
    column of the data.
    """
    arguments = list(inspect.signature(function).parameters.values())[1:]
    named = [
        argument for argument in arguments if argument.kind in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY)
    ]
    allowed = [a.name for a in named if a.kind is a.KEYWORD_ONLY or a.default is not a.empty]
    required = [a.name for a in named if a.kind is a.KEYWORD_ONLY and a.default is a.empty]
    listing = f"parameters of {reference}: {', '.join(allowed) or 'none'}"
    for name in parameters:
        if name not in allowed:
            raise StudyError(f"components: {reference}: unknown parameter {name!r}; {listing}")
    for name in required:
        if name not in parameters:
            raise StudyError(f"components: {reference}: parameter {name!r} is missing; {listing}")
    hints = typing.get_type_hints(function, include_extras=True)
    for name, value in parameters.items():
        try:
            TypeAdapter(hints.get(name, Any)).validate_python(value, strict=True)
        except ValidationError as error:
            raise StudyError(f"components: {reference}: {name}: {error.errors()[0]['msg']}, not {value!r}") from error


def _check_together(name: str, function: RewardFunction, parameters: dict[str, Any]) -> None:
    """Refuse parameters that do not go together, by what the component itself says when it scores nothing."""
    columns = [a.name for a in inspect.signature(function).parameters.values() if a.kind is a.POSITIONAL_OR_KEYWORD]
    try:
        function(**{column: [] for column in columns}, **parameters)
    except StudyError as error:
        raise StudyError(f"components: {name}: {error}") from None
