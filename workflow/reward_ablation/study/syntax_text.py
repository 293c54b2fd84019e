"""A Python file as the text of its syntax tree, without comments, docstrings and formatting.

The text can also leave out messages: the messages of errors, and the output of `print`.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.study.reached_code import reached

#: Fields of a syntax tree that no behaviour depends on.
_NEVER_COUNT = {"ctx", "kind", "type_comment"}
#: Nodes that may begin with a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Nodes that `_cut` may remove parts of.
_CUT = {*_DOCUMENTED, ast.JoinedStr, ast.Raise, ast.Expr}
_IMPORTS = {ast.Import, ast.ImportFrom}


class Source(NamedTuple):
    """A Python file.

    `imports` has (module, level, names) of each import statement, including those in functions. `import a` has no
    names.
    """

    text: str  # its syntax tree, the same in each version of Python
    imports: list[tuple[str, int, list[str]]]


@cache
def content(path: Path) -> str:
    """Text of a file, read only once, so that all digests of one process are of the same text."""
    return path.read_text(encoding="utf-8")


@cache
def source(path: Path, messages: bool) -> Source:
    """The `Source` of a file, which is parsed only once.

    The tree is not kept, because Python's garbage collector would visit its objects again and again. `messages` says
    whether the text includes the messages of errors and the arguments of `print`. Raises SyntaxError if the file is not
    Python.
    """
    imports: list[tuple[str, int, list[str]]] = []
    return Source(_text(ast.parse(content(path), filename=str(path)), messages, imports), imports)


@cache
def text_of_function(path: Path, function: str) -> str:
    """The text of the part of a file that a function of the file reaches, messages included.

    It is that of the whole file where the function reaches all of it. Raises SyntaxError if the file is not Python.
    """
    tree = ast.parse(content(path), filename=str(path))
    return _text(ast.Module(body=reached(tree, function), type_ignores=[]), True, [])


@cache
def imported_names(path: Path, package: str, messages: bool) -> frozenset[str]:
    """Dotted names that a file of a package may import.

    Some of these names are functions or classes, not modules. The caller drops them.
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
    """Whether a call prints to the log. Printing into a file does not count: a program may read the file."""
    is_print = isinstance(call.func, ast.Name) and call.func.id == "print"
    return is_print and all(keyword.arg != "file" for keyword in call.keywords)


def _text(node: Any, messages: bool, imports: list[tuple[str, int, list[str]]]) -> str:
    """A tree as text, without docstrings, empty fields, and fields that only some versions of Python have.

    Appends the tree's imports to `imports`.
    """
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
    """Remove a node's docstring and, unless `messages` count, its message.

    The arguments of a raised exception that contain no text stay, because code that catches the exception may use them.
    """
    if isinstance(node, ast.JoinedStr):  # Python 3.12 puts empty texts between the parts of some f-strings
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
