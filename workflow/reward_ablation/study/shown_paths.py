"""Paths in files that are made to be shared, such as tables and pages: no folder of the user's disk.

`study.json` has such titles of models and data, and the report's pages show the config with such paths. `resolve` warns
by `path_warnings` of absolute paths that stay in specs, because the record of each run repeats its spec.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256

#: A text that is an absolute path, or the function of a file there.
_WHOLE_PATH = re.compile(r"(?P<path>/[^\n:]*/[^\n/:]+)(?P<rest>:\w+)?")


def shown_path(path: str, root: Path, with_digest: bool = True) -> str:
    """A path as others may see it: below `root` relative, else a name such as `a.jsonl (sha256 25b98fadd458ea63)`."""
    if not os.path.isabs(path):
        return path
    whole, home = Path(os.path.normpath(path)), os.path.abspath(root)
    if whole.is_relative_to(home):
        return str(whole.relative_to(home))
    return f"{whole.name}{_digest_of(whole) if with_digest else ''}"


def _digest_of(path: Path) -> str:
    """A digest of a file or of a model's folder in words; empty where there is neither."""
    try:
        return f" (content {folder_fingerprint(path)[:16]})" if path.is_dir() else f" (sha256 {sha256(path)[:16]})"
    except (OSError, StudyError):
        return ""


def without_places(values: Any, root: Path, key: str = "") -> Any:
    """The same values with paths as others may see them, under the key `path` with digests."""
    if isinstance(values, dict):
        return {name: without_places(value, root, str(name)) for name, value in values.items()}
    if isinstance(values, list):
        return [without_places(value, root, key) for value in values]
    if not isinstance(values, str):
        return values
    if key == "path":
        return shown_path(values, root)
    if found := _WHOLE_PATH.fullmatch(values):
        return shown_path(found["path"], root, with_digest=False) + (found["rest"] or "")
    for folder, shown in ((os.path.abspath(root), ""), (os.path.expanduser("~"), "~/")):
        values = values if folder == "/" else values.replace(f"{folder}/", shown)
    return values


def path_warnings(specs: Iterable[Mapping[str, Any]]) -> list[str]:
    """A warning for each absolute path that a spec holds as it is, because the record of each run repeats the spec."""
    keys = dict.fromkeys(key for spec in specs for key in _keys_of_paths(spec, ()))
    return [
        f"{key}: an absolute path, which the records of the runs repeat; before the first run, write the path from "
        "the study's folder"
        for key in keys
    ]


def _keys_of_paths(values: Any, keys: tuple[str, ...]) -> Iterator[str]:
    """Keys of the texts that are absolute paths."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _keys_of_paths(value, (*keys, str(name)))
    elif isinstance(values, list):
        for value in values:
            yield from _keys_of_paths(value, keys)
    elif isinstance(values, str) and _WHOLE_PATH.fullmatch(values):
        yield ".".join(keys)
