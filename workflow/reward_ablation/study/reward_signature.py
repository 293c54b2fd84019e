"""Signature of a user's reward function, from the syntax tree of its file: no code of the file runs.

Planning asks for it (`reward_import`). Of type hints only the markers of `rewards.parameters` are read, which decide
what is part of a spec. A decorator is taken to keep the arguments. Before the first job, `reward_import` checks values
against the real hints, and finds out whether the tree said the arguments right.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from reward_ablation.rewards import parameters as markers
from reward_ablation.rewards.call import described
from reward_ablation.system.errors import StudyError
from reward_ablation.system.user_functions import names_a_module, user_file

#: What `ast.parse` and `compile` raise for a text that is not Python, or is nested too deeply.
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)

#: The markers, by the full names of what a hint may name.
_MARKERS: dict[str, Any] = {f"{markers.__name__}.{name}": getattr(markers, name) for name in markers.NAMES}

#: What gives an object that can be called, but is no function, so that no reward function can be made with it.
_NO_FUNCTION = ("functools.partial", "functools.lru_cache", "functools.cache")

#: The full name of a name that the file does not define, such as one that only a type checker imports.
_UNBOUND = "?"

_DEF = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class NotInTree(StudyError):
    """A function whose arguments the syntax tree of its file does not say."""


def signature_in_file(reference: str, root: Path) -> Callable:
    """A function with the signature and hints of a user's; `NotInTree` if the file has the name, not the arguments."""
    where = f"components: {reference}"
    with _errors_in_one_line(reference):
        function, scope = _definition(reference, root, where)
        return _stub(reference.rpartition(":")[2], function, scope, where)


def is_asynchronous(reference: str, root: Path) -> bool:
    """Whether a user's function is an `async def`, as far as its file says."""
    try:
        with _errors_in_one_line(reference):
            return isinstance(_definition(reference, root, reference)[0], ast.AsyncFunctionDef)
    except NotInTree:
        return False


@contextmanager
def _errors_in_one_line(reference: str) -> Iterator[None]:
    try:
        yield
    except StudyError:
        raise
    except NOT_PYTHON as error:
        file = reference.rpartition(":")[0]
        raise StudyError(f"components: {reference}: {file} does not load: {described(error)}") from None


def _definition(reference: str, root: Path, where: str, passed: tuple[str, ...] = ()) -> tuple[_Function, _Scope]:
    """The `def` or `lambda` of a function, and the names of its file. `passed` are references that led to this one."""
    path, (module, _, name) = user_file(reference, root), reference.rpartition(":")
    tree = _tree(path)
    scope = _Scope(tree)
    statement = scope.names.get(name)
    if not names_a_module(reference) or not isinstance(statement, ast.ImportFrom | None):
        return _function(scope, name, where), scope
    imported = _imported(tree, module if path.name == "__init__.py" else module.rpartition(".")[0])
    if name in imported and imported[name] not in passed:
        return _definition(imported[name], root, where, (*passed, reference))
    alike = ", ".join(get_close_matches(name, [*imported, *scope.names])) or "none"
    raise NotInTree(f"{where}: no function {name!r} in the text of {path}; names like it: {alike}")


def _imported(tree: ast.Module, package: str) -> dict[str, str]:
    """What a module of a package imports from this package: references to functions or others, by name."""
    parents = package.split(".")
    references: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            if home.partition(".")[0] == parents[0]:
                references |= {each.asname or each.name: f"{home}:{each.name}" for each in node.names}
    return references


def _tree(path: Path) -> ast.Module:
    """Syntax tree of a file, after Python's compiler has found no error in it; compiling runs nothing."""
    with warnings.catch_warnings(action="ignore"):
        tree = ast.parse(path.read_bytes(), filename=str(path))
        compile(tree, str(path), "exec", dont_inherit=True)
    return tree


class _Scope:
    """Top-level names of a file with their last definitions, also in branches, without names for type checkers."""

    def __init__(self, tree: ast.Module):
        self.names: dict[str, ast.stmt] = {}
        self.any_name = False  # a star import may define any name
        # How often each name is bound: a function may bind a name of the file again, by `global`.
        self.bound = Counter(name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names)
        for statement in _statements(tree.body):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                self.any_name = True
            for name in _defined(statement):
                self.names[name] = statement
                self.bound[name] += 1

    def full_name(self, node: ast.expr) -> str:
        """Full name of what `Name` or `module.Name` stands for; `_UNBOUND` if nothing defines it, else empty."""
        if isinstance(node, ast.Attribute):
            above = self.full_name(node.value)
            return above if above in ("", _UNBOUND) else f"{above}.{node.attr}"
        if not isinstance(node, ast.Name):
            return ""
        statement = self.names.get(node.id)
        if isinstance(statement, ast.ImportFrom):
            real = next(each.name for each in statement.names if (each.asname or each.name) == node.id)
            return "" if statement.level else f"{statement.module}.{real}"
        if isinstance(statement, ast.Import):
            return next((each.name for each in statement.names if each.asname == node.id), node.id)
        if statement or self.any_name:
            return ""
        return f"builtins.{node.id}" if hasattr(builtins, node.id) else _UNBOUND


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a file in the order of its text, including those in branches, loops and `with`."""
    for statement in body:
        yield statement
        if isinstance(statement, (*_DEF, ast.ClassDef)):
            continue
        branches = [statement, *getattr(statement, "cases", ())]
        if not all(map(_never_fails, getattr(statement, "body", ()))):
            branches += getattr(statement, "handlers", ())
        for branch in branches if not _is_for_type_checkers(statement) else ():
            yield from _statements(getattr(branch, "body", []))
        for field in ("orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))


def _never_fails(statement: ast.stmt) -> bool:
    """Whether a statement only imports what the module of the markers has, or gives a constant or a marker a name."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        module = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
        known = {markers.__name__, *(f"{markers.__name__}.{name}" for name in vars(markers))}
        return all(f"{module}{each.name}" in known for each in statement.names)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Attribute) and value.attr in markers.NAMES)


def _is_for_type_checkers(statement: ast.stmt) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`."""
    test = getattr(statement, "test", None)
    return isinstance(test, ast.Name | ast.Attribute) and ast.unparse(test).endswith("TYPE_CHECKING")


def _defined(statement: ast.stmt) -> list[str]:
    """Names that a statement itself defines, without names that the statements inside it define."""
    if isinstance(statement, (*_DEF, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [each.asname or each.name.partition(".")[0] for each in statement.names]
    parts = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.expr | ast.withitem)]
    nodes = [node for part in parts for node in ast.walk(part)]
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _function(scope: _Scope, name: str, where: str) -> _Function:
    """The `def` or `lambda` of a name; else a StudyError, which is `NotInTree` if there may be a function."""
    statement = scope.names.get(name)
    value = getattr(statement, "value", None)
    if isinstance(statement, _DEF):
        if (first := statement.decorator_list[:1]) and _makes_no_function(first[0], scope):
            raise StudyError(
                f"{where}: line {first[0].lineno}: the decorator `@{ast.unparse(first[0])}` makes it an object that is "
                "no function; take the decorator out, or put it on another function that this one calls"
            )
        return statement
    if isinstance(value, ast.Lambda):
        return value
    if statement and isinstance(value, ast.Call) and _makes_no_function(value.func, scope):
        raise StudyError(
            f"{where}: line {statement.lineno} makes it with `{ast.unparse(value.func)}`, as an object that is no "
            f"function; write a function that calls it, as in `def {name}(completions, ...)`"
        )
    if isinstance(statement, ast.ClassDef) or isinstance(value, ast.Constant) or not (statement or scope.any_name):
        functions = [key for key, each in scope.names.items() if isinstance(each, _DEF) and not key.startswith("_")]
        raise StudyError(f"{where}: no function {name!r}; functions in the file: {', '.join(functions) or 'none'}")
    line = f"line {statement.lineno} defines it without `def`" if statement else "it may come from a star import"
    raise NotInTree(f"{where}: its arguments are not in the text of the file: {line}")


def _makes_no_function(maker: ast.expr, scope: _Scope) -> bool:
    """Whether a call of `maker` is known to make an object that is no function: a class, or such as `lru_cache(9)`."""
    if isinstance(maker, ast.Call):
        return scope.full_name(maker.func) == "functools.lru_cache"
    own = scope.names.get(maker.id) if isinstance(maker, ast.Name) else None
    return isinstance(own, ast.ClassDef) or scope.full_name(maker) in _NO_FUNCTION


def _stub(name: str, function: _Function, scope: _Scope, where: str) -> Callable:
    """A function with the signature of one in a syntax tree, and with its markers as the only type hints."""

    def stub(**arguments: Any) -> Any:
        raise NotImplementedError(f"{name} was read from the text of its file")

    every = function.args
    positional = [*every.posonlyargs, *every.args]
    by_position = [None] * (len(positional) - len(every.defaults)) + every.defaults
    defaults = dict(zip([*positional, *every.kwonlyargs], [*by_position, *every.kw_defaults], strict=True))
    kinds: dict[Any, list[Any]] = {
        inspect.Parameter.POSITIONAL_ONLY: every.posonlyargs,
        inspect.Parameter.POSITIONAL_OR_KEYWORD: every.args,
        inspect.Parameter.VAR_POSITIONAL: [every.vararg],
        inspect.Parameter.KEYWORD_ONLY: every.kwonlyargs,
        inspect.Parameter.VAR_KEYWORD: [every.kwarg],
    }
    arguments = [(each, kind) for kind, some in kinds.items() for each in some if each]
    stub.__name__ = name
    stub.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(each.arg, kind, default=_default(defaults.get(each), scope)) for each, kind in arguments]
    )
    hints = {each.arg: each.annotation for each, _ in arguments if each.annotation}
    named = (node for hint in hints.values() for node in ast.walk(_unquoted(hint)) if isinstance(node, ast.Name))
    if any(scope.full_name(node) == _UNBOUND for node in named):
        return stub  # Python could not read the function's hints either
    stub.__annotations__ = {name: marker for name, hint in hints.items() if (marker := _marker(hint, scope))}
    for argument, node in hints.items():
        if argument not in stub.__annotations__ and _reaches_marker(node, scope, set()):
            raise NotInTree(
                f"{where}: its arguments are not in the text of the file: line {node.lineno} makes the type hint of "
                f"{argument!r} in other ways than by the name of a marker, as in `{argument}: FilePath`"
            )
    return stub


def _reaches_marker(node: ast.AST, scope: _Scope, seen: set[str]) -> bool:
    """Whether a part of the file, or what its names stand for, names a marker. A class is a type without one."""
    for each in ast.walk(_unquoted(node)):
        if isinstance(each, ast.Name | ast.Attribute):
            full = scope.full_name(each)
        else:
            full = f"{each.module}" if isinstance(each, ast.ImportFrom) else ""
        if f"{full}.".startswith(f"{markers.__name__}."):
            return True
        whole = each.value if isinstance(each, ast.Attribute) else each
        name = whole.id if isinstance(whole, ast.Name) else ""
        own = scope.names.get(name)
        is_type = isinstance(own, ast.Import | ast.ImportFrom) or (whole is each and isinstance(own, ast.ClassDef))
        if own and not is_type and name not in seen:
            seen.add(name)
            if _reaches_marker(own, scope, seen):
                return True
    return False


def _default(node: ast.expr | None, scope: _Scope) -> Any:
    """A default's value, also if the default is a name that the file binds once; `...` for another expression."""
    if node is None:
        return inspect.Parameter.empty
    if isinstance(node, ast.Name) and scope.bound[node.id] == 1 and not scope.any_name:
        match scope.names.get(node.id):
            case (
                ast.Assign(targets=[ast.Name()], value=value)
                | ast.AnnAssign(target=ast.Name(), value=ast.expr() as value)
            ):
                node = value
    try:
        return ast.literal_eval(node)
    except (*NOT_PYTHON, TypeError):
        return ...


def _marker(node: ast.expr, scope: _Scope, passed: tuple[str, ...] = ()) -> Any:
    """The marker that a hint is, also beside None or by a name of the file (`passed`: such names so far); else None."""
    node = _unquoted(node)
    if isinstance(node, ast.BinOp):
        return _marker(node.left, scope, passed) or _marker(node.right, scope, passed)
    if isinstance(node, ast.Subscript):
        whole = scope.full_name(node.value)
        if whole == "typing.Optional":
            return _marker(node.slice, scope, passed)
        return Annotated[Any, markers.Mark.NOT_IN_SPEC] if _MARKERS.get(whole) is markers.NotInSpec else None
    name = scope.full_name(node)
    own = scope.names.get(node.id) if isinstance(node, ast.Name) else None
    if isinstance(own, ast.Assign | ast.AnnAssign) and own.value and ast.unparse(node) not in passed:
        return _marker(own.value, scope, (*passed, ast.unparse(node)))
    return _MARKERS.get(name)


def _unquoted(node: Any) -> Any:
    """The expression in a text, such as the hint `"int | None"`; anything else as it is."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return node
    try:
        return _unquoted(ast.parse(node.value.strip(), mode="eval").body)
    except SyntaxError:
        return node
