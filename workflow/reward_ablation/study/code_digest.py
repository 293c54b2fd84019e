"""Digest of the code that a stage runs: the syntax trees of its import closure in this package.

Comments, docstrings, formatting and messages do not count. A change in any module that the stage reaches by imports
counts, even if the import is inside a function.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from reward_ablation.study.kept_digests import kept_or_made
from reward_ablation.study.syntax_text import imported_names, source

PACKAGE = "reward_ablation"
PACKAGE_ROOT = Path(__file__).parents[2]


@cache
def code_digest(*modules: str, root: Path = PACKAGE_ROOT, without: tuple[str, ...] = ()) -> str:
    """Digest (16 hex digits) of modules and of all modules that they import from this package.

    Modules are given by their dotted names. The name of a package includes its `__main__`, which a stage runs. `root`
    is the folder that contains the package. Modules of the packages in `without` do not count, and neither do modules
    that only these packages import.
    """

    def make() -> str:
        digest = hashlib.sha256()
        for module, path in _files(modules, root, without).items():
            digest.update(f"{module}\0{code_text(path)}\0".encode())
        return digest.hexdigest()[:16]

    digest: str = _kept("all", modules, root, without, make)
    return digest


def module_digests(*modules: str, root: Path = PACKAGE_ROOT, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Digest of each module that `code_digest` covers: 8 hex digits by dotted name, in order of the names."""

    def make() -> dict[str, str]:
        files = _files(modules, root, without)
        return {module: hashlib.sha256(code_text(path).encode()).hexdigest()[:8] for module, path in files.items()}

    return dict(_kept("each", modules, root, without, make))


def _kept(kind: str, modules: tuple[str, ...], root: Path, without: tuple[str, ...], make: Callable[[], Any]) -> Any:
    """The result of `make`. For this package itself, it comes from the cache on disk if it is there."""
    if root != PACKAGE_ROOT:
        return make()
    return kept_or_made(json.dumps([kind, modules, without]), make, package_files(root))


def code_text(path: Path) -> str:
    """Text of a file of this package, without comments, docstrings, formatting and messages."""
    return source(path, messages=False).text


def _files(modules: tuple[str, ...], root: Path, without: tuple[str, ...]) -> dict[str, Path]:
    """Files of the import closure in this package, in order of the modules' names."""

    def file_of(module: str) -> Path | None:
        left_out = any(module == name or module.startswith(f"{name}.") for name in without)
        return None if left_out else file_of_module(module, root)

    start = {name for module in modules for name in (module, f"{module}.__main__")}
    return closure(start, file_of)


def closure(start: set[str], file_of: Callable[[str], Path | None]) -> dict[str, Path]:
    """Files of modules and of all modules that they import, in order of the modules' names.

    `file_of` returns the file of a module. It returns None for a module that does not count, and for a name that is not
    a module.
    """
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
            waiting.extend(imported_names(path, package, messages=not is_own(module)))
    return dict(sorted(files.items()))


def is_own(module: str) -> bool:
    """Whether a dotted name belongs to this package."""
    return module.split(".")[0] == PACKAGE


def file_of_module(module: str, root: Path = PACKAGE_ROOT) -> Path | None:
    """File of a module of this package; None for any other name."""
    return package_files(root).get(module)


@cache
def package_files(root: Path) -> dict[str, Path]:
    """File of each module of this package, found once per process."""
    files = {}
    for path in sorted((root / PACKAGE).rglob("*.py"), key=lambda path: path.name == "__init__.py"):
        if not path.name.startswith("."):  # an editor's
            files[".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")] = path
    return files
