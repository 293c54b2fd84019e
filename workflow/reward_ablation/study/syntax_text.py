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
def source(path: Path, messages: bool) -> Source:
    """A file, read once. The tree is not kept: Python's garbage collector would visit its objects again and again.

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
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    if not messages:
        _cut_messages(tree)
    imports: list[tuple[str, int, list[str]]] = []
    return Source(_text(tree, imports), imports)


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


def _cut_messages(tree: ast.Module) -> None:
    """Take the messages out of a tree: arguments with text of raised exceptions, and what is printed to the log.

    Other arguments of an exception stay, since code that catches the exception may use them.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = [value for value in node.exc.args if not _has_text(value)]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_message(node.value):
            node.value.args, node.value.keywords = [], []


def _has_text(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node))


def _is_message(call: ast.Call) -> bool:
    """Whether a call prints to the log; what is printed into a file may be read by a program."""
    is_print = isinstance(call.func, ast.Name) and call.func.id == "print"
    return is_print and all(keyword.arg != "file" for keyword in call.keywords)


def _text(node: Any, imports: list[tuple[str, int, list[str]]]) -> str:
    """A tree as text; docstrings, what a version of Python adds, and what is empty are left out. Adds its imports."""
    if isinstance(node, list):
        return f"[{','.join([_text(each, imports) for each in node])}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Import):
        imports.extend((alias.name, 0, []) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        imports.append((node.module or "", node.level, [alias.name for alias in node.names]))
    parts = []
    for name in _fields_that_count(node._fields):
        value: Any = getattr(node, name, None)
        if name == "body" and isinstance(node, _DOCUMENTED) and _has_docstring(value):
            value = value[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
        elif isinstance(node, ast.JoinedStr):  # Python 3.12 has empty texts between the parts of some
            value = [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
        if value is not None and value != []:
            parts.append(f"{name}={_text(value, imports)}")
    return f"{type(node).__name__}({','.join(parts)})"


@cache
def _fields_that_count(fields: tuple[str, ...]) -> list[str]:
    return sorted(set(fields) - _NEVER_COUNT)


def _has_docstring(body: list[ast.stmt]) -> bool:
    return (
        bool(body)
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )
