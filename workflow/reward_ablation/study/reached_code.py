"""The part of a Python file that one of its functions reaches: what decides the function's results.

An edit of a function must not train the arms again that use another function of the same file. Where a part might act
on the function without being named by it, such as a statement that calls something, the part counts. Where names are
looked up by text, the whole file counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

#: Names by which code reaches what it does not name.
_BY_TEXT = {"globals", "locals", "vars", "eval", "exec", "compile", "__import__", "importlib", "inspect", "sys"}
#: Functions that change nothing but their result.
_PURE = {
    *("abs", "all", "any", "bool", "dict", "enumerate", "float", "frozenset", "int", "len", "list", "max", "min"),
    *("range", "re.compile", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip", "Path", "Fraction"),
}
#: Decorators that change nothing but the function or class below them.
_PURE_DECORATORS = {
    *("cache", "lru_cache", "functools.cache", "functools.lru_cache", "dataclass", "dataclasses.dataclass"),
    *("staticmethod", "classmethod", "property"),
}
#: Nodes of expressions that run code: of these, only calls of pure functions are allowed in a pure expression.
_RUN = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def reached(tree: ast.Module, function: str) -> list[ast.stmt]:
    """The statements of a file that decide a function's results, in the file's order.

    All statements are returned where it cannot be known which these are.
    """
    statements = [each for number, each in enumerate(tree.body) if (number or not _is_text(each))]
    statements = [each for each in statements if not _is_of_main(each)]
    bound = [_bound(statement) for statement in statements]
    named = {name for names in bound for name in names or ()}
    if function not in named or "*" in named or "__getattr__" in named:
        return tree.body
    pairs = list(zip(statements, bound, strict=True))
    used = {name for statement, names in pairs for name in _used(statement, named) - (names or set())}
    wanted, taken, before = {function}, set[int](), -1
    while len(taken) > before:
        before = len(taken)
        for number, (statement, names) in enumerate(pairs):
            if names is None or names & wanted or _acts(statement, names, used):
                taken.add(number)
                wanted |= _used(statement, named)
    chosen = [_with_names(statements[number], wanted) for number in sorted(taken)]
    if any(isinstance(node, ast.Name) and node.id in _BY_TEXT for each in chosen for node in ast.walk(each)):
        return tree.body
    return chosen


def _bound(statement: ast.stmt) -> set[str] | None:
    """Names that a top-level statement binds; None for a statement that does more than bind names."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return set(map(_name_of, statement.names))
        case ast.Assign(targets=targets) if all(isinstance(target, ast.Name) for target in targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return None


def _acts(statement: ast.stmt, names: set[str], used: set[str]) -> bool:
    """Whether a statement may act on others even if they use no name that it binds.

    `used` are the names that the file's other statements use.
    """
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
            return not (_are_pure_decorators(statement.decorator_list) and all(map(_is_pure, defaults)))
        case ast.ClassDef():
            inner = [each for each in statement.body if not _is_text(each) and not isinstance(each, ast.Pass)]
            has_parents = bool(statement.bases or statement.keywords)  # which may note their children
            inside = any(_bound(each) is None or _acts(each, set(), set()) for each in inner)
            return has_parents or inside or not _are_pure_decorators(statement.decorator_list)
        case ast.ImportFrom(module="__future__"):
            return True
        case ast.Import() | ast.ImportFrom():
            return not names & used  # an import that nothing uses is there for what it does
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return value is not None and not _is_pure(value)
    return True


def _is_pure(value: ast.expr) -> bool:
    """Whether an expression only computes a value."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            method_of_text = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
            if not method_of_text and ast.unparse(node.func) not in _PURE:
                return False
        elif isinstance(node, _RUN):
            return False
    return True


def _are_pure_decorators(decorators: Iterable[ast.expr]) -> bool:
    names = (ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in decorators)
    return all(name in _PURE_DECORATORS for name in names)


def _used(statement: ast.stmt, named: set[str]) -> set[str]:
    """Top-level names that a statement uses, also within texts, as in annotations."""
    return {name for name in _words(statement) if name in named}


def _words(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value)


def _with_names(statement: ast.stmt, wanted: set[str]) -> ast.stmt:
    """An import statement without names that are not wanted, if any is wanted; any other statement as it is."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return statement
    names = [each for each in statement.names if _name_of(each) in wanted] or statement.names
    if isinstance(statement, ast.Import):
        return ast.Import(names=names)
    return ast.ImportFrom(module=statement.module, names=names, level=statement.level)


def _name_of(alias: ast.alias) -> str:
    """The name that an import binds."""
    return (alias.asname or alias.name).partition(".")[0]


def _is_of_main(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`, which no import runs."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    return ast.unparse(statement.test) == "__name__ == '__main__'"


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a text alone, such as a docstring."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
        return False
    return isinstance(statement.value.value, str)
