"""Loading of methods by their names in the config: their functions, their arguments, and their check.

`plan` and each start call `check` when they resolve the config, so that a wrong parameter is found before any job. Of a
user's method, only its positional arguments, its parameters' names and `rescale` are checked then. Training, and tables
that replay a run, call `load_method`.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np

from reward_ablation.combination.call import RESCALE, call_method
from reward_ablation.combination.interface import CONTEXT, POSITIONAL, Method
from reward_ablation.rewards.call import described, line_in, refusing_changes
from reward_ablation.rewards.load import function_in_file, of_types, searching_imports
from reward_ablation.system.errors import StudyError
from reward_ablation.system.user_functions import FORMS, folder_of_imports, in_a_file, user_file

_METHODS = "reward_ablation.combination.methods"
_SECTION = "combination"


def method_names() -> list[str]:
    """Names of the methods that come with the workflow."""
    return sorted(path.stem for path in Path(__file__).with_name("methods").glob("*.py") if path.stem[0] != "_")


@cache
def load_method(method: str, root: Path = Path()) -> Method:
    """The function of a method: a name of `method_names`, a user's file relative to `root`, or a module's function."""
    if in_a_file(method):
        return _reported(method, function_in_file(method, root, _SECTION), root)
    _known(method)
    return getattr(importlib.import_module(f"{_METHODS}.{method}"), method)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class MethodArguments:
    """Keyword-only arguments of a method, sorted by who sets them."""

    context: tuple[str, ...]  # arguments of `interface.CONTEXT`, which the workflow sets
    parameters: tuple[str, ...]  # arguments that the config sets
    required: tuple[str, ...]  # parameters without a default
    any_parameter: bool  # whether the method takes further parameters (``**components``)


def arguments_of_method(method: str, root: Path = Path()) -> MethodArguments:
    """Arguments of a method, read from its file without running the file."""
    arguments = _definition(method, root).args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if len(positional) != len(POSITIONAL) or arguments.vararg:
        raise StudyError(
            f"{_SECTION}: {method}: takes {', '.join(positional) or 'nothing'} by position; "
            f"write def {method.rpartition(':')[2]}({', '.join(POSITIONAL)}, *, ...)"
        )
    keywords = dict(zip([each.arg for each in arguments.kwonlyargs], arguments.kw_defaults, strict=True))
    parameters = [name for name in keywords if name not in CONTEXT and name != RESCALE]
    return MethodArguments(
        tuple(name for name in keywords if name in CONTEXT),
        tuple(parameters),
        tuple(name for name in parameters if keywords[name] is None),
        arguments.kwarg is not None,
    )


def check(
    method: str,
    parameters: Mapping[str, Any],
    names: Sequence[str],
    weights: Sequence[float],
    bounds: np.ndarray | None = None,
    root: Path = Path(),
) -> None:
    """Refuse a method or parameters that training would refuse.

    A method of the workflow is called twice with a few made-up completions, the second time with its own state. A
    user's file is read but not run. `bounds` (K, 2): lowest and highest score, NaN where they are not documented.
    """
    check_names(method, parameters, root)
    if parameters.get(RESCALE) not in (None, True, False):
        raise StudyError(f"{RESCALE}: {parameters[RESCALE]!r} is neither true nor false; write one of them")
    if in_a_file(method):
        return
    known = np.full((len(names), 2), np.nan) if bounds is None else np.asarray(bounds, float)
    low = np.where(np.isfinite(known[:, 0]), known[:, 0], 0.0)
    high = np.where(np.isfinite(known[:, 1]), known[:, 1], low + 1.0)
    # Two groups of four, at first without a Gram matrix and then with one, as in the first steps of a training.
    generator = np.random.default_rng(0)
    scores = low + (high - low) * generator.random((8, len(names)))
    state: dict[str, Any] = {}
    for step in range(2):
        state = call_method(
            load_method(method),
            method,
            parameters,
            scores,
            np.arange(8) // 4,
            np.asarray(weights, float),
            state,
            names=names,
            gram=np.eye(len(names)) if step else None,
            step=step,
            bounds=known,
            tokens=np.arange(1, 9),
            learning_rate=1e-6,
        ).state


def check_names(method: str, parameters: Mapping[str, Any], root: Path = Path()) -> None:
    """Refuse a parameter that a method does not have, and a required parameter that is missing."""
    arguments = arguments_of_method(method, root)
    listing = ", ".join((*arguments.parameters, RESCALE))
    for name in parameters:
        known = name in arguments.parameters or name == RESCALE
        if not known and (name in (*CONTEXT, *POSITIONAL) or not arguments.any_parameter):
            raise StudyError(f"{name}: unknown parameter of the method {method}; parameters: {listing}")
    for name in arguments.required:
        if name not in parameters:
            raise StudyError(f"{name}: missing parameter of the method {method}; write {name}: VALUE")


def _known(method: str) -> None:
    if method not in method_names():
        raise StudyError(f"method: unknown method {method!r}; methods here: {', '.join(method_names())}, or {FORMS}")


def _definition(method: str, root: Path) -> ast.FunctionDef:
    """A method's function in the syntax tree of its file."""
    if not in_a_file(method):
        _known(method)
        path, shown, name = Path(__file__).with_name("methods") / f"{method}.py", f"{method}.py", method
    else:
        path, (shown, _, name) = user_file(method, root, "method"), method.rpartition(":")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise StudyError(f"method: {method}: {shown} does not load: {described(error)}") from None
    except OSError as error:
        raise StudyError(f"method: {method}: {shown} cannot be read: {error.strerror}") from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in functions:
        listing = ", ".join(each for each in functions if not each.startswith("_")) or "none"
        raise StudyError(f"method: {method}: no function {name!r}; functions in the file: {listing}")
    return functions[name]


def _reported(method: str, function: Method, root: Path) -> Method:
    """Wrap a user's function: one-line errors, its types and imports; one that changes the process is refused."""
    folder = folder_of_imports(method, root)

    @wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        own = of_types(function, {name: value for name, value in keywords.items() if name not in CONTEXT})
        where = f"{_SECTION}: {method}: the method"
        try:
            with refusing_changes(where), searching_imports(Path(root), folder):
                result = function(*arguments, **{**keywords, **own})
        except StudyError:
            raise
        except (Exception, SystemExit) as error:
            line = line_in(function.__code__.co_filename, error)
            raise StudyError(f"{_SECTION}: {method}: {line}{described(error)}") from error
        _refuse_losses(where, result)
        return result

    return called


def _refuse_losses(where: str, result: Any) -> None:
    """Refuse what NumPy cannot take of a method's result, or NumPy and JSON would change in silence."""
    parts = result if isinstance(result, tuple) else (result,)
    for part in (*parts[:1], *parts[2:]):
        try:
            is_lost = isinstance(part, np.ma.MaskedArray) or np.iscomplexobj(part)
        except ValueError:  # no array: the check of the result says so
            is_lost = False
        except RuntimeError:  # torch's, for a tensor with gradients
            is_lost = True
        if is_lost:
            raise StudyError(
                f"{where} returned complex or masked numbers, or gradients; return an array of real numbers"
            )
    with suppress(RecursionError):  # the check of the result says so
        for key in _keys(parts[1]) if len(parts) > 1 else ():
            if not isinstance(key, str):  # JSON makes it a text, which the method would not find again
                raise StudyError(f"{where} returned a state with the key {key!r}; write texts as keys")


def _keys(value: Any) -> Iterator[Any]:
    """Keys of mappings at any depth of a state."""
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from _keys(each)
