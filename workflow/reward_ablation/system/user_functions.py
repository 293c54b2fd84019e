"""Where users' functions are, as a config names them: `path/to/file.py:function` or `package.module:function`.

Planning and digests read these files as text; `rewards.load` and `combination.load` import them later. Here nothing is
imported.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from reward_ablation.system.errors import StudyError

FORMS = "path/to/file.py:function or package.module:function"
_PACKAGE = __name__.partition(".")[0]


class Module(NamedTuple):
    """A module of the user: its file, and the installed package or file that its digest covers (None in the study)."""

    file: Path
    installed: Path | None


def in_a_file(function: str) -> bool:
    """Whether a function is the user's own. A file without `:function` counts: `user_file` says what is missing."""
    return ":" in function or function.endswith(".py")


def names_a_module(function: str) -> bool:
    """Whether a function is named by its module, as in `package.module:function`."""
    module = function.rpartition(":")[0]
    return not module.endswith(".py") and all(part.isidentifier() for part in module.split("."))


def user_file(reference: str, root: Path, section: str = "components") -> Path:
    """The file of a user's function."""
    file, _, name = reference.rpartition(":")
    if not name.isidentifier() or not (file.endswith(".py") or names_a_module(reference)):
        raise StudyError(f"{section}: {reference!r} is not of the form {FORMS}")
    if names_a_module(reference):
        return user_module(reference, root, section).file
    path = Path(root) / file
    if not path.is_file():
        raise StudyError(f"{section}: {reference}: there is no file {file} in {Path(root).resolve()}")
    return path


def folder_of_imports(reference: str, root: Path) -> Path:
    """Folder in which imports of a user's function are searched last: its file's folder; the root for a module."""
    return Path(root) if names_a_module(reference) else (Path(root) / reference.rpartition(":")[0]).parent


def user_module(reference: str, root: Path, section: str = "components") -> Module:
    """The module in `package.module:function`, as Python finds it with the study's folder first."""
    module = reference.rpartition(":")[0]
    top = module.partition(".")[0]
    if top in {*sys.stdlib_module_names, "__main__"}:
        raise StudyError(f"{section}: {reference}: {top} comes with Python; write a function in a file that calls it")
    if top == _PACKAGE:
        raise StudyError(f"{section}: {reference}: name what comes with the workflow by its function alone")
    found = _found(module, Path(root).resolve())
    if found is None or not found.file.is_file() or found.file.suffix != ".py":
        raise StudyError(
            f"{section}: {reference}: there is no Python file of the module {module} in {Path(root).resolve()} or "
            "among the installed packages; check the name, or install its package where Snakemake and the jobs run"
        )
    return found


def _found(module: str, root: Path) -> Module | None:
    """A module in the study's folder, else an installed one; None if there is none."""
    top, _, rest = module.partition(".")
    in_root = PathFinder.find_spec(top, [str(root)])
    spec = in_root if in_root and in_root.origin else _installed(top)
    if spec is None or spec.origin is None:  # a folder without `__init__.py` in the study's folder, or nothing
        file = file_below(root, module) if in_root else None
        return Module(file, None) if file else None
    top_file = Path(spec.origin)
    is_package = top_file.name == "__init__.py"
    file = (file_below(top_file.parent, rest) if is_package else None) if rest else top_file
    installed = None if spec is in_root else top_file.parent if is_package else top_file
    return Module(file, installed) if file else None


def _installed(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)  # of a top-level name it imports nothing
    except ValueError:  # such as `__main__`
        return None


def file_below(root: Path, module: str) -> Path | None:
    """File of a module below a folder of Python files; None if there is none."""
    base = root.joinpath(*module.split("."))
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)
