"""Digest of the code that a stage runs: the syntax trees of its import closure in this package.

Comments, docstrings and formatting do not count; a change in any function that the stage can
reach by import does, also by an import inside a function.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.system.errors import StudyError

PACKAGE = "reward_ablation"
PACKAGE_ROOT = Path(__file__).parents[2]
#: Fields of a syntax tree that no behaviour depends on.
_UNTOLD = {"ctx", "kind", "type_comment"}
#: What may begin with a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


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
    for module, path in _files(modules, root).items():
        digest.update(f"{module}\0{_code(path)}\0".encode())
    return digest.hexdigest()[:16]


def module_digests(*modules: str, root: Path = PACKAGE_ROOT) -> dict[str, str]:
    """Digest of each module that `code_digest` is over: 8 hex digits by dotted name, in order of the names."""
    files = _files(modules, root)
    return {module: hashlib.sha256(_code(path).encode()).hexdigest()[:8] for module, path in files.items()}


def import_closure(modules: tuple[str, ...], root: Path = PACKAGE_ROOT) -> set[str]:
    """Names of the modules and of everything in this package that they import, at any depth."""
    return set(_files(modules, root))


def component_modules(functions: Iterable[str]) -> list[str]:
    """Modules of the built-in components among these functions; a user's file counts in the spec instead."""
    return [f"reward_ablation.rewards.components.{name}" for name in sorted(set(functions)) if ":" not in name]


def file_digest(path: Path, root: Path) -> str:
    """Digest of a user's Python file and of the files that it imports, at any depth: 16 hex digits.

    What is installed does not count, but for this package: a reward may build on its grading.

    Parameters
    ----------
    path : Path
    root : Path
        Folder that Python looks for imports in first. It looks in the file's own folder last, after what is installed.

    Raises
    ------
    StudyError
        The file is missing, or one of the files is not Python.
    """
    if not path.is_file():
        raise StudyError(f"{path}: no such file; a component's function is a name or path/to/file.py:function")
    try:
        digest = hashlib.sha256(_code(path).encode())
        for module, file in imports_of_file(path, root).items():
            digest.update(f"\0{module}\0{_code(file)}".encode())
    except SyntaxError as error:
        raise StudyError(f"{error.filename}: line {error.lineno}: not valid Python: {error.msg}") from None
    return digest.hexdigest()[:16]


def imports_of_file(path: Path, root: Path) -> dict[str, Path]:
    """Files that a user's Python file imports, at any depth, by module: below the root, in the file's own folder, and
    of this package."""
    return _closure(set(_imported(path, "")), lambda module: _user_file(module, root, path.parent))


def _files(modules: tuple[str, ...], root: Path) -> dict[str, Path]:
    """Files of the import closure in this package, in order of the modules' names."""
    start = {name for module in modules for name in (module, f"{module}.__main__")}
    return _closure(start, lambda module: _file_of(module, root))


def _closure(start: set[str], file_of: Callable[[str], Path | None]) -> dict[str, Path]:
    """Files of the modules and of all that they import, in order of their names; those without a file are left out."""
    waiting, seen, files = list(start), set[str](), dict[str, Path]()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        waiting.append(module.rpartition(".")[0])  # importing a.b.c runs a and a.b
        path = file_of(module)
        if path is not None:
            files[module] = path
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            waiting.extend(_imported(path, package))
    return dict(sorted(files.items()))


def _file_of(module: str, root: Path) -> Path | None:
    """File of a module of this package; None for any other name."""
    return _file_below(root, module) if module.split(".")[0] == PACKAGE else None


def _user_file(module: str, root: Path, folder: Path) -> Path | None:
    """File of a module below the study's folder, in the reward file's own folder, or of this package."""
    if not module:
        return None
    found = _file_of(module, PACKAGE_ROOT) or _file_below(root, module)
    beside = _file_below(folder, module)
    return found or (None if beside and _is_shadowed(module.split(".")[0], folder) else beside)


def _is_shadowed(name: str, folder: Path) -> bool:
    """Whether Python finds a module of this name elsewhere before it looks in a reward file's own folder."""
    if name in sys.stdlib_module_names:
        return True
    found = PathFinder.find_spec(name, sys.path)
    if found is None or found.origin is None:
        return False
    home = folder.resolve()
    return Path(found.origin).resolve().parent not in (home, home / name)


def _file_below(root: Path, module: str) -> Path | None:
    base = root.joinpath(*module.split("."))
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


class _Source(NamedTuple):
    """A file: the text of its syntax tree, and its imports as (module, level, names); `import a` has no names."""

    text: str
    imports: list[tuple[str, int, list[str]]]


@cache
def _source(path: Path) -> _Source:
    """A file, read once. Its tree is not kept: Python would look through its objects again and again."""
    imports: list[tuple[str, int, list[str]]] = []
    text = _text(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)), imports)
    return _Source(text, imports)


@cache
def _imported(path: Path, package: str) -> frozenset[str]:
    """Dotted names that a file of a package may import; names that are no module are for the caller to drop."""
    names: set[str] = set()
    parents = package.split(".") if package else []
    for module, level, imported in _source(path).imports:
        above = parents[: max(len(parents) - level + 1, 0)] if level else []
        whole = ".".join([*above, *([module] if module else [])])
        names.add(whole)
        names.update(f"{whole}.{name}" for name in imported)
    return frozenset(names)


def _code(path: Path) -> str:
    """Text of a file's syntax tree without comments, docstrings and formatting, the same in each version of Python."""
    return _source(path).text


def _text(node: Any, imports: list[tuple[str, int, list[str]]]) -> str:
    """A tree as text; docstrings, what a version of Python adds, and what is empty are left out. Tells its imports."""
    if isinstance(node, list):
        return f"[{','.join([_text(each, imports) for each in node])}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Import):
        imports.extend((alias.name, 0, []) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        imports.append((node.module or "", node.level, [alias.name for alias in node.names]))
    told = []
    for name in _told(node._fields):
        value: Any = getattr(node, name, None)
        if name == "body" and isinstance(node, _DOCUMENTED) and _has_docstring(value):
            value = value[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
        elif isinstance(node, ast.JoinedStr):  # Python 3.12 has empty texts between the parts of some
            value = [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
        if value is not None and value != []:
            told.append(f"{name}={_text(value, imports)}")
    return f"{type(node).__name__}({','.join(told)})"


@cache
def _told(fields: tuple[str, ...]) -> list[str]:
    return sorted(set(fields) - _UNTOLD)


def _has_docstring(body: list[ast.stmt]) -> bool:
    return (
        bool(body)
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )
