"""File systems that refuse to write: a small disk that gets full, a read-only disk, and a folder without permission."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str = "64k") -> Iterator[Path]:
    """Mount a file system of its own in memory on a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small file system needs the right to mount one: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, *options: str) -> None:
    """Change the size of a small disk, or whether it can be written."""
    subprocess.run(["mount", "-o", ",".join(["remount", *options]), str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Fill a disk but for `leave` bytes with one file."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(file.tell() - leave)
    return filler


def without_privileges(command: list[str]) -> list[str]:
    """A command that obeys permissions also where root runs the tests."""
    if os.geteuid() != 0:
        return command
    refused = subprocess.run(["setpriv", "--bounding-set=-dac_override,-dac_read_search", "true"], capture_output=True)
    if refused.returncode:
        pytest.skip("root obeys no permissions, and setpriv, which would make it, does not work here")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
