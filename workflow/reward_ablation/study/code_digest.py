"""Digest of the code that a stage runs: the syntax trees of its import closure in this package.

`core_digest`, `scoring` and the full check ask for these digests; `reward_files` digests users' files likewise. Of this
package, comments, docstrings, formatting and messages do not count. All modules that a stage imports count.

A start needs all digests, and so they are kept on disk, beside Python's compiled modules, by the names and texts of all
files. They are written even under PYTHONDONTWRITEBYTECODE, which images of containers set.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.study.reached_code import is_text, reached
from reward_ablation.system.files import atomic_path

PACKAGE = "reward_ablation"
PACKAGE_ROOT = Path(__file__).parents[2]


@cache
def code_digest(*modules: str, root: Path = PACKAGE_ROOT, without: tuple[str, ...] = ()) -> str:
    """Digest (16 hex digits) of modules and all that they import from this package, but not by way of `without`."""

    def make() -> str:
        digest = hashlib.sha256()
        for module, path in _files(modules, root, without).items():
            digest.update(f"{module}\0{code_text(path)}\0".encode())
        return digest.hexdigest()[:16]

    digest: str = kept_or_made(json.dumps(["all", modules, without]), make, package_files(root))
    return digest


def module_digests(*modules: str, root: Path = PACKAGE_ROOT, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Digest of each module that `code_digest` covers: 8 hex digits by dotted name, in order of the names."""

    def make() -> dict[str, str]:
        files = _files(modules, root, without)
        return {module: hashlib.sha256(code_text(path).encode()).hexdigest()[:8] for module, path in files.items()}

    return dict(kept_or_made(json.dumps(["each", modules, without]), make, package_files(root)))


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
    """Files of modules and of all that they import, by name. `file_of` is None for a name that does not count."""
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


#: The digests on disk.
FILE = Path(cache_from_source(__file__)).with_suffix(".json")


def kept_or_made(name: str, make: Callable[[], Any], files: dict[str, Path], file: Path | None = None) -> Any:
    """A digest from the cache, or a new one of `make`; without a cache `file`, only this package's are kept."""
    if file is None and files is not package_files(PACKAGE_ROOT):
        return make()
    kept = read(file or FILE, package_key(tuple(files.items())))
    if name not in kept["digests"]:
        atexit.unregister(write)
        atexit.register(write, file or FILE, kept)
        kept["digests"][name] = make()
    return kept["digests"][name]


@cache
def package_key(files: tuple[tuple[str, Path], ...]) -> str:
    """SHA-256 over the names and the texts of modules."""
    texts = {module: content(path).decode() for module, path in files}
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


@cache
def read(file: Path, key: str) -> dict[str, Any]:
    """The `digests` in a file, and their `key`; no digests if they were written for another key, or cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        written = json.loads(file.read_text(encoding="utf-8"))
        if written["key"] == key:
            return {"key": key, "digests": dict(written["digests"])}
    return {"key": key, "digests": {}}


def write(file: Path, kept: dict[str, Any]) -> None:
    """Write the digests for a key. Do nothing if the folder cannot be written to."""
    with suppress(OSError), atomic_path(file, durable=False) as temporary:
        temporary.write_text(json.dumps(kept), encoding="utf-8")


#: Fields of a syntax tree that no behaviour depends on.
_NEVER_COUNT = {"ctx", "kind", "type_comment"}
#: Nodes that may begin with a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Nodes that `_cut` may remove parts of.
_CUT = {*_DOCUMENTED, ast.JoinedStr, ast.Raise, ast.Expr}
_IMPORTS = {ast.Import, ast.ImportFrom}


class Source(NamedTuple):
    """A Python file. `imports` has (module, level, names) of each import statement; `import a` has no names."""

    text: str  # its syntax tree, the same in each version of Python
    imports: list[tuple[str, int, list[str]]]


@cache
def content(path: Path) -> bytes:
    """Bytes of a file, read once, so that all digests of a process agree. Python finds their encoding."""
    return path.read_bytes()


@cache
def source(path: Path, messages: bool) -> Source:
    """The `Source` of a file, parsed once; SyntaxError if it is not Python. `messages`: whether messages count.

    The tree is not kept, because Python's garbage collector would visit its objects again and again.
    """
    imports: list[tuple[str, int, list[str]]] = []
    return Source(_text(ast.parse(content(path), filename=str(path)), messages, imports), imports)


@cache
def text_of_function(path: Path, function: str) -> str:
    """Text of the part of a file that a function reaches, messages included; it may be the whole file."""
    tree = ast.parse(content(path), filename=str(path))
    return _text(ast.Module(body=reached(tree, function), type_ignores=[]), True, [])


@cache
def imported_names(path: Path, package: str, messages: bool) -> frozenset[str]:
    """Dotted names that a file of a package may import; some are functions or classes, which the caller drops."""
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
    """A tree as text, alike in all versions of Python, without docstrings. Appends its imports to `imports`."""
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
    """Remove a docstring and, unless `messages` count, a message. Other arguments of errors stay: code reads them."""
    if isinstance(node, ast.JoinedStr):  # Python 3.12 puts empty texts between the parts of some f-strings
        node.values = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value == "")]
    elif isinstance(node, _DOCUMENTED):
        if node.body and is_text(node.body[0]):
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    elif messages:
        return
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        node.exc.args = [value for value in node.exc.args if not _has_text(value)]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_message(node.value):
        node.value.args, node.value.keywords = [], []
