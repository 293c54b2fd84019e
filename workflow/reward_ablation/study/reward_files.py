"""Digest of the code of a user's function: of a file, with every file that it imports, or of an installed package.

It is part of the specs of components, metrics and methods of combination, so that after an edit arms are trained, or
answers scored, anew. The job of a run compares the files with it once more (`training.around.checks`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from reward_ablation.spec.parts import CombineSpec, ComponentSpec
from reward_ablation.spec.run import ArmSpec
from reward_ablation.study.code_digest import (
    PACKAGE_ROOT,
    closure,
    content,
    file_of_module,
    imported_names,
    is_own,
    source,
    text_of_function,
)
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.errors import StudyError
from reward_ablation.system.plain_values import printable
from reward_ablation.system.user_functions import file_below, in_a_file, names_a_module, user_file, user_module


def function_digest(function: str, root: Path) -> str | None:
    """Digest (16 hex digits) of the code of a user's function; None for a function of this package.

    In a file, the code that the function reaches counts, and so does each imported file. A module in the study's folder
    counts whole, with its packages. An installed module counts with its top-level package, which may import by texts.
    Raises StudyError if there is no such file or module, or if a file is not Python.
    """
    if not in_a_file(function):
        return None
    if not names_a_module(function):
        file = user_file(function, root)
        with _errors_in_one_line(file):
            part = text_of_function(file, function.rpartition(":")[2])
        return _digest(files_of_function(function, root), part)
    found = user_module(function, root)
    return _package_digest(found.installed) if found.installed else _digest(files_of_function(function, root))


def files_of_function(function: str, root: Path) -> dict[str, Path]:
    """Files whose code counts for a user's function, by module; the user's own file has no module."""
    file = user_file(function, root)
    if not names_a_module(function):
        return {"": file, **imports_of_file(file, root)}
    if installed := user_module(function, root).installed:
        return {".".join((installed.stem, name)): path for name, path in _files_of_package(installed).items()}
    with _errors_in_one_line(file):
        return closure({function.rpartition(":")[0]}, lambda module: _user_file(module, root, root))


def refuse_uncounted(function: str, root: Path) -> None:
    """Refuse an imported module that no digest sees, found by `sys.path`: its edit would train nothing again."""
    if names_a_module(function) and user_module(function, root).installed:
        return
    counted = files_of_function(function, root)
    homes = [root.resolve(), user_file(function, root).resolve().parent]
    for module in sorted({name for importing in counted.items() for name in _names_in(*importing)}):
        path = getattr(sys.modules.get(module), "__file__", None)
        file = Path(path).resolve() if path else None
        if not file or is_own(module) or module.partition(".")[0] in sys.stdlib_module_names:
            continue
        is_installed = not {"site-packages", "dist-packages"}.isdisjoint(file.parts)
        is_counted = module in counted and counted[module].resolve() == file
        if not is_installed and not is_counted and any(map(file.is_relative_to, homes)):
            raise StudyError(
                f"{function}: imports {module} from {file}, where the runs' keys do not count its code; put it into "
                f"{homes[0]} or beside the file that imports it, or import it by its path from there"
            )


def _names_in(module: str, path: Path) -> frozenset[str]:
    """Dotted names that a user's file may import; none for a module of this package."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return frozenset() if is_own(module) else imported_names(path, package, messages=True)


@cache
def _package_digest(package: Path) -> str:
    """Digest of the Python files of an installed package, or of an installed module's only file."""
    digest = hashlib.sha256()
    for name, file in _files_of_package(package).items():
        text = file.read_bytes()
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def _files_of_package(package: Path) -> dict[str, Path]:
    """Python files of an installed package by their paths in it, or an installed module's only file."""
    files = {file.relative_to(package).as_posix(): file for file in package.rglob("*.py") if file.is_file()}
    return dict(sorted(files.items())) or {"": package}


def file_digest(path: Path, root: Path) -> str:
    """Digest (16 hex digits) of a user's Python file and of all files that it imports; this package included."""
    return _digest({"": path, **imports_of_file(path, root)})


def is_code_of(function: str, code: str, root: Path) -> bool:
    """Whether a digest is of what the function reaches now, or of its whole file, as earlier versions took it."""
    if code not in (function_digest(function, root), whole_digest(function, root)):
        return False
    # A process takes its digests from what it read first.
    files = {name: path for name, path in files_of_function(function, root).items() if not is_own(name)}
    return all(path.read_bytes() == content(path) for path in files.values())


def whole_digest(function: str, root: Path) -> str | None:
    """The digest of a function's code as earlier versions took it: the digest of its whole file."""
    if not in_a_file(function) or names_a_module(function):
        return function_digest(function, root)
    return file_digest(user_file(function, root), root)


def _digest(files: dict[str, Path], part: str | None = None) -> str:
    """Digest of files, by module; the user's own has none, and only its `part` counts (None: the whole file)."""
    digest = hashlib.sha256()
    for module, file in files.items():
        if not is_own(module):
            text = part if part and not module else source(file, messages=True).text
            digest.update((f"\0{module}\0{text}" if module else text).encode())
    for module in _own_modules(files):
        digest.update(f"\0{module}\0{deciding_digest(module)}".encode())
    return digest.hexdigest()[:16]


def imports_of_file(path: Path, root: Path) -> dict[str, Path]:
    """Files that a user's file imports at any depth, by module: below the root, beside the file, in this package."""
    with _errors_in_one_line(path):
        names = set(imported_names(path, "", messages=True))
        return closure(names, lambda module: _user_file(module, root, path.parent))


@contextmanager
def _errors_in_one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        raise StudyError(f"{error.filename or path}: {line}not valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        problem = f"{type(error).__name__}: {printable(str(error), 300)}"
        raise StudyError(f"{path}: the file, or one that it imports, is not valid Python: {problem}") from None


def _own_modules(files: dict[str, Path]) -> list[str]:
    """Modules of this package that a user's files import directly, sorted."""
    names = {name for file in files.items() for name in _names_in(*file)}
    return sorted(name for name in names if file_of_module(name))


def _user_file(module: str, root: Path, folder: Path) -> Path | None:
    """File of a module of this package, below the study's folder, or in the reward file's own folder; else None."""
    if not module:
        return None
    top, neighbour = module.split(".")[0], file_below(folder, module)
    if neighbour and _is_shadowed(top, folder):
        neighbour = None
    # To Python, a package with `__init__.py` goes before all folders of its name without one.
    is_first = neighbour and file_below(folder, top) and not file_below(root, top)
    first_choice = file_of_module(module, PACKAGE_ROOT) or (None if is_first else file_below(root, module))
    return first_choice or neighbour


def _is_shadowed(name: str, folder: Path) -> bool:
    """Whether Python finds a module of this name elsewhere before it looks in a reward file's own folder."""
    if name in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(name, sys.path)
    if spec is None or spec.origin is None:
        return False
    home = folder.resolve()
    return Path(spec.origin).resolve().parent not in (home, home / name)


def codes_on_record(specs: dict[str, ArmSpec], folders: Iterable[str], root: Path) -> dict[str, ArmSpec]:
    """The specs, by arm; with digests of whole files, as of earlier versions, where the arm has only runs of such."""
    keys = {folder.rpartition("-")[2] for folder in folders}
    if not keys:
        return specs
    found = {}
    for arm, spec in specs.items():
        parts: dict[str, ComponentSpec | CombineSpec] = {**spec.components}
        if spec.combine:
            parts[""] = spec.combine  # no component has an empty name
        if spec.key in keys or not any(part.code for part in parts.values()):
            found[arm] = spec
            continue
        codes = {
            name: part.model_copy(update={"code": whole_digest(_function_of(part), root)}) if part.code else part
            for name, part in parts.items()
        }
        earlier = spec.model_copy(update={"combine": codes.pop("", None), "components": codes})
        found[arm] = earlier if earlier.key in keys else spec
    return found


def _function_of(part: ComponentSpec | CombineSpec) -> str:
    return part.method if isinstance(part, CombineSpec) else part.function
