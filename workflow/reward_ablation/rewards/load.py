"""From a component's name in the config to a function, with its parameters checked."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from reward_ablation.config.secrets import hidden, missing_variables, not_set, with_variables
from reward_ablation.rewards.arguments import OF_PROBLEMS, Arguments, arguments_of
from reward_ablation.rewards.asynchronous import called_like_others
from reward_ablation.rewards.call import described, line_in, scored
from reward_ablation.rewards.parameters import NAMES, Mark, hints_of, marks_of, with_whole_paths
from reward_ablation.rewards.process_state import refusing_changes
from reward_ablation.rewards.scoring import RewardFunction, Scores
from reward_ablation.system.errors import StudyError

_COMPONENTS = "reward_ablation.rewards.components"


def component_names() -> list[str]:
    """Names of the components that come with the workflow."""
    folder = Path(__file__).with_name("components")
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def load_component(
    function: str,
    parameters: dict[str, Any],
    root: Path,
    name: str | None = None,
    environment: Mapping[str, str] = os.environ,
    section: str = "components",
    further: Sequence[str] = (),
) -> RewardFunction:
    """Reward function of a component with its parameters set: ``(completions, **columns) -> list[float | None]``.

    Parameters
    ----------
    function : str
        A name from `component_names`, or ``path/to/file.py:function`` relative to `root`.
    parameters : dict
        Keyword arguments; names are checked against the signature, values against the type hints. A value
        ``{env: NAME}`` is read from the variable NAME of `environment`.
    root : Path
        The study's folder.
    name : str, optional
        The component's name, by which TRL names a metric; default the function's own name.
    environment : mapping
        Environment variables.
    section : str
        Section of the config that names the component. Messages name it.
    further : sequence of str
        Columns that the data has in addition to those of every problem.

    Raises
    ------
    StudyError
        `check_component` refuses the component, or an environment variable is not set.
    """
    found, arguments = check_component(function, parameters, root, environment, further)
    if missing := missing_variables([*parameters.values()], environment):
        raise StudyError(f"components: {function}: {not_set(missing)}")
    values = _values(found, parameters, root, environment)
    folder = user_file(function, root).parent if in_a_file(function) else root
    hide = partial(hidden, value=[*parameters.values()], environment=environment)

    def component(completions: list, **columns: Any) -> Scores:
        columns["completions"] = completions
        with searching_imports(root, folder):
            return scored(f"{section}.{component.__name__}", found, arguments, values, columns, hide)

    component.__name__ = name or found.__name__
    component.__doc__ = found.__doc__
    return component


def check_component(
    function: str,
    parameters: dict[str, Any],
    root: Path,
    environment: Mapping[str, str] = os.environ,
    further: Sequence[str] = (),
) -> tuple[Callable, Arguments]:
    """Find a component's function, and check its arguments; for the parameters see `load_component`.

    A parameter whose environment variable is not set is not checked against its type hint.

    Raises
    ------
    StudyError
        One line: an unknown name, a missing file or function, a file that cannot be loaded, a column that the data
        does not have, or a parameter that is unknown, missing, of a wrong type, or in conflict with another parameter.
    """
    found = function_in_file(function, root) if in_a_file(function) else _by_name(function)
    if inspect.iscoroutinefunction(found):
        found = called_like_others(found)
    arguments = arguments_of(function, found, parameters, further)
    _check_parameters(function, found, arguments, parameters, environment)
    # A user's function may fail without completions.
    if not in_a_file(function) and not missing_variables([*parameters.values()], environment):
        _check_together(function, found, parameters, environment, root, further)
    return found, arguments


def marks_of_component(function: str, root: Path) -> dict[str, Mark]:
    """Markers of a component's parameters, by parameter; see `rewards.parameters`.

    A user's file is loaded for its markers only if its text names one.
    """
    if not in_a_file(function):
        return marks_of(_by_name(function))
    try:
        text = user_file(function, root).read_text(encoding="utf-8", errors="replace")
    except OSError:  # a missing file is refused elsewhere
        return {}
    return marks_of(function_in_file(function, root)) if any(name in text for name in NAMES) else {}


def in_a_file(function: str) -> bool:
    """Whether a component's function is in a user's file."""
    return ":" in function or function.endswith(".py")


def user_file(reference: str, root: Path) -> Path:
    """The user's file that a component's function is in."""
    return Path(root) / reference.rpartition(":")[0]


def _values(
    function: Callable, parameters: dict[str, Any], root: Path, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Parameters as the function gets them: with the values of environment variables, and with full paths."""
    values = {key: with_variables(value, environment) for key, value in parameters.items()}
    return with_whole_paths(function, values, root)


def _by_name(name: str) -> RewardFunction:
    if name not in component_names():
        raise StudyError(
            f"components: unknown function {name!r}; functions here: {', '.join(component_names())}, "
            "or path/to/file.py:function"
        )
    return getattr(importlib.import_module(f"{_COMPONENTS}.{name}"), name)


def function_in_file(reference: str, root: Path, section: str = "components") -> Callable:
    """Load a function from a user's file.

    Parameters
    ----------
    reference : str
        ``path/to/file.py:function``, relative to `root`.
    root : Path
        The study's folder.
    section : str
        Section of the config that names the function. Messages name it.

    Raises
    ------
    StudyError
        The reference has another form, the file is missing, does not load or changes the state of the process, or it
        has no such function.
    """
    file, _, name = reference.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise StudyError(f"{section}: {reference!r} is not of the form path/to/file.py:function")
    path = Path(root) / file
    if not path.is_file():
        raise StudyError(f"{section}: {reference}: there is no file {file} in {Path(root).resolve()}")
    # The module must be in sys.modules: dataclasses look their module up by its name.
    module_name = f"user_{section.removesuffix('s')}_{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    with refusing_changes(f"{section}: {reference}: the import of {file}"):
        try:
            with searching_imports(Path(root), path.parent):
                spec.loader.exec_module(module)  # type: ignore[union-attr]
        except (Exception, SystemExit) as error:
            told = f"{line_in(str(path), error)}{described(error)}{_how_to_import(error, path, root)}"
            raise StudyError(f"{section}: {reference}: {file} does not load: {told}") from error
    functions = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
    if name not in functions:
        raise StudyError(
            f"{section}: {reference}: no function {name!r}; functions in the file: {', '.join(functions) or 'none'}"
        )
    return getattr(module, name)  # type: ignore[no-any-return]


def _how_to_import(error: BaseException, path: Path, root: Path) -> str:
    """Advice for a failed import; empty if there is none."""
    if isinstance(error, ModuleNotFoundError):
        folders = dict.fromkeys([Path(root).resolve(), path.parent.resolve()])
        return f"; imports are looked for in {', in '.join(map(str, folders))} and among the installed packages"
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "; a reward file is no part of a package: write `import helper` for a file helper.py beside it"
    return ""


@contextmanager
def searching_imports(root: Path, folder: Path) -> Iterator[None]:
    """Search imports in `root` first, as `python -m` does in the jobs, and in `folder`, the reward file's, last."""
    first, last = str(Path(root).resolve()), str(folder.resolve())
    sys.path.insert(0, first)
    sys.path.append(last)
    try:
        yield
    finally:
        sys.path.remove(first)
        del sys.path[len(sys.path) - 1 - sys.path[::-1].index(last)]


def _check_parameters(
    reference: str, function: Callable, arguments: Arguments, parameters: dict[str, Any], environment: Mapping[str, str]
) -> None:
    """Refuse a parameter that is unknown, missing or of a wrong type."""
    listing = f"parameters of {reference}: {', '.join(arguments.parameters) or 'none'}"
    for name in parameters:
        if name not in arguments.parameters:
            raise StudyError(f"components: {reference}: unknown parameter {name!r}; {listing}")
    for name in arguments.required:
        if name not in parameters:
            raise StudyError(f"components: {reference}: parameter {name!r} is missing; {listing}")
    hints = hints_of(function)
    for name, value in parameters.items():
        if missing_variables(value, environment):
            continue
        try:
            TypeAdapter(hints.get(name, Any)).validate_python(with_variables(value, environment), strict=True)
        except ValidationError as error:
            message = hidden(error.errors()[0]["msg"], value, environment)
            raise StudyError(f"components: {reference}: {name}: {message}, not {value!r}") from None
        except PydanticSchemaGenerationError:  # a class that pydantic does not know
            continue


def _check_together(
    name: str,
    function: RewardFunction,
    parameters: dict[str, Any],
    environment: Mapping[str, str],
    root: Path = Path(),
    further: Sequence[str] = (),
) -> None:
    """Call the component with no completions, so that it refuses parameters that do not go together."""
    arguments = arguments_of(name, function, parameters, further)
    columns = (*arguments.asked, *OF_PROBLEMS) if arguments.any_column else arguments.columns
    values = _values(function, parameters, root, environment)
    try:
        function(**{**arguments.columns_among({column: [] for column in columns}), **values})
    except StudyError as error:
        message = hidden(str(error), [*parameters.values()], environment)
        raise StudyError(f"components: {name}: {message}") from None
