"""A cache, on disk, of the digests of this package's code. A start of the workflow needs all of them.

The digests hold for one state of the package. The cache's key covers the names and texts of all Python files, so that
one changed letter makes all digests anew. The file lies beside Python's compiled modules and is trusted like them:
whoever can write there can change the code itself. It is written even under PYTHONDONTWRITEBYTECODE, which images of
containers set. A damaged file, or a file with another key, is ignored.
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

from reward_ablation.study.syntax_text import content
from reward_ablation.system.files import atomic_path

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
