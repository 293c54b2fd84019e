"""The function of a component, found by its name in the config, with its parameters checked and set.

Training, the rule `score`, `reward-ablation import` and `plan --adopt` load components here, and
`combination.load` users' methods of combination. Planning checks built-in components by it. Before the first job
`study.reward_import` tries users' files, in a process of its own, so that they cannot end or change the start. Nothing
here decides a score, so a change here trains no run again.
"""

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
from types import ModuleType
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from reward_ablation.config.secrets import hidden, missing_variables, not_set, with_variables
from reward_ablation.rewards.arguments import OF_PROBLEMS, Arguments, arguments_of
from reward_ablation.rewards.asynchronous import called_like_others
from reward_ablation.rewards.call import described, line_in, refusing_changes, scored
from reward_ablation.rewards.parameters import NAMES, Mark, hints_of, marks_of, with_whole_paths
from reward_ablation.rewards.scoring import RewardFunction, Scores
from reward_ablation.system.errors import StudyError
from reward_ablation.system.user_functions import FORMS, folder_of_imports, in_a_file, names_a_module, user_file

_COMPONENTS = "reward_ablation.rewards.components"
#: What pydantic raises for a type that it does not know, such as a class, or a text that is no type.
_UNKNOWN_TYPE = (PydanticUserError, NameError, SyntaxError)


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

    `function` is a name from `component_names`, or ``path/to/file.py:function`` relative to `root`, the study's folder,
    or ``package.module:function``. A parameter ``{env: NAME}`` is read from the variable NAME of `environment`. TRL
    names a metric by `name`. Messages on calls name `section`. `further` names the data's columns besides every set's.
    """
    found, arguments = check_component(function, parameters, root, environment, further)
    if missing := missing_variables([*parameters.values()], environment):
        raise StudyError(f"components: {function}: {not_set(missing)}")
    values = _values(found, parameters, root, environment)
    folder = folder_of_imports(function, root)
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
    """Find a component's function, and check its arguments as `load_component` describes them.

    Names of parameters are checked against the signature, values against the type hints. A parameter whose environment
    variable is not set is not checked against its type hint.

    A StudyError of one line is raised for an unknown name, a missing file or function, a file that cannot be loaded, a
    column that the data does not have, or a parameter that is unknown, missing or of a wrong type. A built-in component
    is also called without completions, so that it refuses parameters in conflict, unless a variable is not set.
    """
    found = function_in_file(function, root) if in_a_file(function) else _by_name(function)
    if inspect.iscoroutinefunction(found):
        found = called_like_others(found)
    arguments = arguments_of(function, found, parameters, further)
    _check_parameters(function, found, arguments, parameters, environment)
    # A user's function may fail without completions.
    if not in_a_file(function) and not missing_variables([*parameters.values()], environment):
        _check_together(function, found, arguments, parameters, environment, root)
    return found, arguments


def marks_of_component(function: str, root: Path) -> dict[str, Mark]:
    """Markers of a component's parameters. A user's file is loaded for them only if its text may name one."""
    if not in_a_file(function):
        return marks_of(_by_name(function))
    return marks_of(function_in_file(function, root)) if may_name_markers(function, root) else {}


def may_name_markers(function: str, root: Path) -> bool:
    """Whether a user's file may name a marker. A module always may: its function may be from another file."""
    text = user_file(function, root).read_text(encoding="utf-8", errors="replace")
    return names_a_module(function) or any(name in text for name in NAMES)


def _values(
    function: Callable, parameters: dict[str, Any], root: Path, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Parameters as the function gets them: with the values of environment variables, its types, and full paths."""
    values = {key: with_variables(value, environment) for key, value in parameters.items()}
    return with_whole_paths(function, of_types(function, values), root)


def of_types(function: Callable, values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with the types that the hints of a function say, or else its defaults."""
    hints, signature = hints_of(function), inspect.signature(function).parameters
    defaults = {key: signature[key].default if key in signature else None for key in values}
    return {key: _of_type(value, hints.get(key, type(defaults[key]))) for key, value in values.items()}


def _of_type(value: Any, hint: Any) -> Any:
    """A value as a type has it: a run's spec says 1 for 1.0, and an array of 1 would be one of whole numbers."""
    try:
        return _whole(value, TypeAdapter(hint).validate_python(value, strict=True))
    except (ValidationError, *_UNKNOWN_TYPE):
        return value


def _whole(given: Any, found: Any) -> Any:
    """A validated value that loses nothing: pydantic drops keys of a TypedDict, and makes iterators of `Iterable`."""
    if isinstance(given, dict) and isinstance(found, dict):
        kept = {key: _whole(given[key], value) for key, value in found.items()}
        return kept | {key: value for key, value in given.items() if key not in kept}
    if isinstance(given, list) and isinstance(found, list | Iterator):
        return [_whole(*pair) for pair in zip(given, found, strict=True)]
    return given if isinstance(found, Iterator) else found


def _by_name(name: str) -> RewardFunction:
    """A built-in function. The error also says how users' functions are written (`FORMS`)."""
    if name not in component_names():
        raise StudyError(
            f"components: unknown function {name!r}; functions here: {', '.join(component_names())}, or {FORMS}"
        )
    return getattr(importlib.import_module(f"{_COMPONENTS}.{name}"), name)


def function_in_file(reference: str, root: Path, section: str = "components") -> Callable:
    """Load a function from a user's file, or import it from a module; messages name the config's `section`.

    StudyError also if the file changes the state of the process, or if Python imports another file than `user_file`.
    """
    path = user_file(reference, root, section)
    file, _, name = reference.rpartition(":")
    folder = folder_of_imports(reference, root)
    with refusing_changes(f"{section}: {reference}: the import of {file}"):
        try:
            with searching_imports(Path(root), folder):
                module = importlib.import_module(file) if names_a_module(reference) else _run(path, section)
                function = getattr(module, name, None)  # a package may import it only now
        except (Exception, SystemExit) as error:
            told = f"{line_in(str(path), error)}{described(error)}{_how_to_import(error, folder, root)}"
            raise StudyError(f"{section}: {reference}: {file} does not load: {told}") from error
    imported = Path(module.__file__ or "")
    if imported.resolve() != path.resolve():
        raise StudyError(
            f"{section}: {reference}: the runs' keys have the code of {path}, but Python imports {imported}; rename one"
        )
    if not inspect.isfunction(function) or name.startswith("_"):
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value) and key[0] != "_"]
        raise StudyError(
            f"{section}: {reference}: no function {name!r}; functions in the file: {', '.join(functions) or 'none'}"
        )
    return function


def _run(path: Path, section: str) -> ModuleType:
    """The module of a user's file."""
    # The module must be in sys.modules: dataclasses look their module up by its name. The path's checksum keeps
    # files of the same name apart.
    name = f"user_{section.removesuffix('s')}_{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def _how_to_import(error: BaseException, folder: Path, root: Path) -> str:
    """Advice for a failed import; empty if there is none."""
    if isinstance(error, ModuleNotFoundError):
        folders = dict.fromkeys([Path(root).resolve(), folder.resolve()])
        return f"; imports are looked for in {', in '.join(map(str, folders))} and among the installed packages"
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "; a reward file is no part of a package: write `import helper` for a file helper.py beside it"
    return ""


@contextmanager
def searching_imports(root: Path, folder: Path) -> Iterator[None]:
    """Search imports in `root` first, as `python -m` does in the jobs, and in `folder`, the reward file's, last."""
    # Last, so that a file in `folder` never takes the place of an installed module.
    first, last = str(Path(root).resolve()), str(folder.resolve())
    sys.path.insert(0, first)
    sys.path.append(last)
    try:
        yield
    finally:
        sys.path.remove(first)
        # The entry that was appended, not an equal one that was there before.
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
        except _UNKNOWN_TYPE:
            continue


def _check_together(
    name: str,
    function: RewardFunction,
    arguments: Arguments,
    parameters: dict[str, Any],
    environment: Mapping[str, str],
    root: Path,
) -> None:
    """Call the component with no completions, so that it refuses parameters that do not go together."""
    columns = (*arguments.asked, *OF_PROBLEMS) if arguments.any_column else arguments.columns
    values = _values(function, parameters, root, environment)
    try:
        function(**{**arguments.columns_among({column: [] for column in columns}), **values})
    except StudyError as error:
        message = hidden(str(error), [*parameters.values()], environment)
        raise StudyError(f"components: {name}: {message}") from None
