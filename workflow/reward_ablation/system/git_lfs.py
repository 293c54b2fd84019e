"""Git LFS pointers: the short texts that a clone without Git LFS has in place of large files of data or weights.

The job that reads a data set, the check of a model's files and the check of data before any job refuse them, and say
how to get the file itself.
"""

from __future__ import annotations

from pathlib import Path

from reward_ablation.system.errors import StudyError

_START = b"version https://git-lfs.github.com/spec/"


def refuse_lfs_pointer(path: Path, where: str) -> None:
    """Refuse a file that is a Git LFS pointer. `where` is what the message calls the file."""
    with path.open("rb") as file:
        if file.read(len(_START)) == _START:
            raise StudyError(
                f"{where}: is a Git LFS pointer, not the file itself; run `git lfs pull` in its repository"
            )
