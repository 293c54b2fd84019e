"""Digests of files, checked against those that were recorded when the files were made, such as those in run.json.

The commands that read results of earlier jobs (evaluation, tables) call `check_files`, which refuses changed files.
Planning puts `folder_fingerprint` of a local model's folder into the specs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.system.strict_text import load_json

#: Number and size of the blocks of a large file in a model folder that are hashed. A file up to 16 MiB is hashed whole.
_BLOCKS, _BLOCK = 256, 1 << 16


def digest_where_present(path: Path) -> str | None:
    """SHA-256 of a file; None where there is no file."""
    try:
        return sha256(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def check_files(folder: Path, recorded: Mapping[str, str], names: Iterable[str], record: str, remedy: str) -> None:
    """Refuse files `names` that are missing, or changed since the file `record` got their SHA-256, `recorded`."""
    for name in names:
        path = folder / name
        if name not in recorded:
            raise StudyError(f"{path}: {record} does not list it; {remedy}")
        try:
            digest = sha256(path)
        except FileNotFoundError:
            raise StudyError(f"{path}: there is no such file; {remedy}") from None
        if digest != recorded[name]:
            raise StudyError(
                f"{path}: truncated or changed since it was written: its SHA-256 starts with {digest[:8]}, in {record} "
                f"with {recorded[name][:8]}; {remedy}"
            )


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object in a record (run.json, model.json), whose digests `check_files` then compares."""
    try:
        record = load_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file; {remedy}") from None
    except ValueError:  # also for bytes that are not UTF-8
        raise StudyError(f"{path}: truncated or changed: it is not JSON; {remedy}") from None
    if not isinstance(record, dict):
        raise StudyError(f"{path}: holds no JSON object; {remedy}")
    return record


@cache
def folder_fingerprint(folder: Path) -> str:
    """Digest of the names, sizes and contents of a local model's files, but for hidden files and texts (`.md`).

    Of a large file only evenly spread blocks are hashed: all weights would take minutes at each start. Fine-tuning
    changes weights all over, so that 256 blocks of 64 KiB show it; an edit between two blocks does not show.
    """
    if not os.path.isfile(folder / "config.json"):
        raise StudyError(f"model.path: {folder}: no config.json; give a folder with a saved transformers model")
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix != ".md" and not path.name.startswith("."):
            size = path.stat().st_size
            digest.update(f"{path.name}\0{size}\0".encode())
            with path.open("rb") as file:
                for start in range(0, size, max(_BLOCK, size // _BLOCKS)):
                    file.seek(start)
                    digest.update(file.read(_BLOCK))
    return digest.hexdigest()
