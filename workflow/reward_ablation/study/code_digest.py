"""Digest of the code that a stage runs: the syntax trees of its import closure in this package.

Comments, docstrings and formatting do not count; a change in any function that the stage can
reach by import does, also by an import inside a function.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

from reward_ablation.study.errors import StudyError

PACKAGE = "reward_ablation"
PACKAGE_ROOT = Path(__file__).parents[2]


@cache
def code_digest(*modules: str, root: Path = PACKAGE_ROOT) -> str:
    """Digest of the given modules and of all that they import from this package.

    Parameters
    ----------
    modules : str
        Dotted names. A package stands for its `__main__` too, which is what a stage runs.
    root : Path
        Folder that holds the package.

    Returns
    -------
    str
        16 hex digits.
    """
    digest = hashlib.sha256()
    for module in sorted(import_closure(modules, root)):
        digest.update(f"{module}\0{_code(_file_of(module, root))}\0".encode())
    return digest.hexdigest()[:16]


def import_closure(modules: tuple[str, ...], root: Path = PACKAGE_ROOT) -> set[str]:
    """Names of the modules and of everything in this package that they import, at any depth."""
    waiting = [name for module in modules for name in (module, f"{module}.__main__")]
    closure: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in closure or _file_of(module, root) is None:
            continue
        closure.add(module)
        waiting.extend(_imported(_file_of(module, root)))
        waiting.append(module.rpartition(".")[0])  # importing a.b.c runs a and a.b
    return closure


def file_digest(path: Path) -> str:
    """Digest of one Python file's syntax tree, such as a user's reward file: 16 hex digits.

    Raises
    ------
    StudyError
        The file is missing or is not Python.
    """
    if not path.is_file():
        raise StudyError(f"{path}: no such file; a component's function is a name or path/to/file.py:function")
    try:
        return hashlib.sha256(_code(path).encode()).hexdigest()[:16]
    except SyntaxError as error:
        raise StudyError(f"{path}: line {error.lineno}: not valid Python: {error.msg}") from None


def _file_of(module: str, root: Path) -> Path | None:
    """File of a module of this package; None for any other name."""
    if module.split(".")[0] != PACKAGE:
        return None
    base = root.joinpath(*module.split("."))
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def _imported(path: Path) -> frozenset[str]:
    """Dotted names that a file may import; names that are no module are for the caller to drop."""
    names: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


@cache
def _code(path: Path) -> str:
    """Source without comments, docstrings and formatting."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
