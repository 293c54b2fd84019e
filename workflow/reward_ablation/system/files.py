"""Writing of files so that a reader never sees an incomplete file.

All packages write their results by these functions: a job may be killed at any moment, and `status`, `watch` and
`preview` read while jobs write.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@contextmanager
def atomic_path(path: str | Path, durable: bool = True) -> Iterator[Path]:
    """Yield a path beside `path`, moved into place on success; if not `durable`, a power cut may leave it empty."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if durable:
            flush_to_disk(temporary)
        os.replace(temporary, path)
        if durable:
            flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, in place of any file of that name. Copy it if the file system has no hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with atomic_path(target) as temporary:
            shutil.copy2(source, temporary)


def flush_to_disk(path: Path) -> None:
    """Flush a file's bytes, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def give_usual_modes(folder: Path) -> None:
    """Give a folder's files the mode of new files, by the umask: safetensors writes files that others cannot read."""
    umask = os.umask(0o077)  # the umask can be read only by setting it
    os.umask(umask)
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with suppress(PermissionError):
                path.chmod(0o666 & ~umask)


def write_json(value: Any, path: str | Path, durable: bool = True) -> None:
    """Write a value as indented JSON with sorted keys, in one move."""
    with atomic_path(path, durable) as temporary:
        temporary.write_text(json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def write_parquet(table: pa.Table | pd.DataFrame, path: str | Path, durable: bool = True) -> None:
    """Write a table as zstd-compressed Parquet, in one move. The same rows give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not isinstance(table, pa.Table):
        table = pa.Table.from_pandas(table, preserve_index=False)
    with atomic_path(path, durable) as temporary:
        pq.write_table(table.replace_schema_metadata(None), temporary, compression="zstd", write_page_checksum=True)


def sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
