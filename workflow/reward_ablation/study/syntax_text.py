"""A Python file as the text of its syntax tree: comments, docstrings and formatting leave no trace.

The text can leave out messages too: what an error says, and what a `print` writes.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: Fields of a syntax tree that no behaviour depends on.
_NEVER_COUNT = {"ctx", "kind", "type_comment"}
#: What may begin with a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Nodes that parts may be cut out of.
_CUT = {*_DOCUMENTED, ast.JoinedStr, ast.Raise, ast.Expr}
_IMPORTS = {ast.Import, ast.ImportFrom}


class Source(NamedTuple):
    """A file.

    Attributes
    ----------
    text : str
        Its syntax tree, the same in each version of Python.
    imports : list of tuple
        (module, level, names) of each import statement, also inside functions; `import a` has no names.
    """

    text: str
    imports: list[tuple[str, int, list[str]]]


@cache
def content(path: Path) -> str:
    """Text of a file, read once: all that one process says of a file is of the same text."""
    return path.read_text(encoding="utf-8")


@cache
def source(path: Path, messages: bool) -> Source:
    """A file, parsed once. The tree is not kept: Python's garbage collector would visit its objects again and again.

    Parameters
    ----------
    path : Path
    messages : bool
        Whether the text has the messages of errors and what `print` statements print.

    Raises
    ------
    SyntaxError
        The file is not Python.
    """
    imports: list[tuple[str, int, list[str]]] = []
    return Source(_text(ast.parse(content(path), filename=str(path)), messages, imports), imports)


@cache
def imported_names(path: Path, package: str, messages: bool) -> frozenset[str]:
    """Dotted names that a file of a package may import.

    Some names stand for functions or classes and not for modules. The caller drops these.
    """
    names: set[str] = set()
    parents = package.split(".") if package else []
    for module, level, imported in source(path, messages).imports:
        above = parents[: max(len(parents) - level + 1, 0)] if level else []
        whole = ".".join([*above, *([module] if module else [])])
        names.add(whole)
        names.update(f"{whole}.{name}" for name in imported)
    return frozenset(names)


def _has_text(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node))


def _is_message(call: ast.Call) -> bool:
    """Whether a call prints to the log; what is printed into a file may be read by a program."""
    is_print = isinstance(call.func, ast.Name) and call.func.id == "print"
    return is_print and all(keyword.arg != "file" for keyword in call.keywords)


def _text(node: Any, messages: bool, imports: list[tuple[str, int, list[str]]]) -> str:
    """A tree as text; docstrings, what a version of Python adds, and what is empty are left out. Adds its imports."""
    if isinstance(node, list):
        return f"[{','.join([_text(each, messages, imports) for each in node])}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    kind = type(node)
    if kind in _IMPORTS:
        imports.extend(_imports_of(node))
    if kind in _CUT:
        _cut(node, messages)
    parts = []
    for name in _fields_that_count(node._fields):
        value = getattr(node, name, None)
        if value is not None and value != []:
            parts.append(f"{name}={_text(value, messages, imports)}")
    return f"{kind.__name__}({','.join(parts)})"


@cache
def _fields_that_count(fields: tuple[str, ...]) -> list[str]:
    return sorted(set(fields) - _NEVER_COUNT)


def _imports_of(node: Any) -> list[tuple[str, int, list[str]]]:
    if isinstance(node, ast.Import):
        return [(alias.name, 0, []) for alias in node.names]
    return [(node.module or "", node.level, [alias.name for alias in node.names])]


def _cut(node: Any, messages: bool) -> None:
    """Take out of a node what leaves no trace: docstrings, and messages where these do not count.

    Of a raised exception, arguments without text stay, since code that catches the exception may use them.
    """
    if isinstance(node, ast.JoinedStr):  # Python 3.12 has empty texts between the parts of some
        node.values = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value == "")]
    elif isinstance(node, _DOCUMENTED):
        if _has_docstring(node.body):
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    elif messages:
        return
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        node.exc.args = [value for value in node.exc.args if not _has_text(value)]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_message(node.value):
        node.value.args, node.value.keywords = [], []


def _has_docstring(body: list[ast.stmt]) -> bool:
    first = body[0] if body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
