"""Digest of the code that a stage runs: the syntax trees of its import closure in this package.

Comments, docstrings, formatting and messages do not count. A change in any module that the stage reaches by imports
counts, even if the import is inside a function.

A start needs all digests, and so they are kept on disk, for one state of the package: the key covers the names and
texts of all its files. The file lies beside Python's compiled modules and is trusted like them. It is written even
under PYTHONDONTWRITEBYTECODE, which images of containers set. A damaged file, or another key, is ignored.
"""

from __future__ import annotations

import atexit
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from reward_ablation.study.syntax_text import content, imported_names, source
from reward_ablation.system.files import atomic_path

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


FILE = Path(cache_from_source(__file__)).with_suffix(".json")


def kept_or_made(name: str, make: Callable[[], Any], files: dict[str, Path], file: Path = FILE) -> Any:
    """A digest from the cache, or a new digest, which is written to the cache when this process ends.

    `files` are all modules of the package. `make` computes the digest from their `content`, and from nothing else.
    `file` is the cache, and `name` is the digest's name there.
    """
    key = package_key(tuple(files.items()))
    digests = read(file, key)
    if name not in digests:
        atexit.unregister(write)
        atexit.register(write, file, key, digests)
        digests[name] = make()
    return digests[name]


@cache
def package_key(files: tuple[tuple[str, Path], ...]) -> str:
    """SHA-256 over the names and the texts of modules."""
    texts = {module: content(path) for module, path in files}
    return _sha256(json.dumps(texts, sort_keys=True))


@cache
def read(file: Path, key: str) -> dict[str, Any]:
    """The digests in a file, if they were written for this key and the file is not damaged; else none."""
    try:
        seal, _, text = file.read_text(encoding="utf-8").partition("\n")
        written = json.loads(text) if seal == _sha256(text) else {}
    except (OSError, ValueError):
        return {}
    digests: dict[str, Any] = written["digests"] if written.get("key") == key else {}
    return digests


def write(file: Path, key: str, digests: dict[str, Any]) -> None:
    """Write the digests for a key, with a checksum. Do nothing if the folder cannot be written to."""
    text = json.dumps({"key": key, "digests": digests})
    with suppress(OSError), atomic_path(file, durable=False) as temporary:
        temporary.write_text(f"{_sha256(text)}\n{text}", encoding="utf-8")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
