"""Checks before the first job: no other Snakemake works in the results folder, and this one can write there.

A start claims the folder before its first job, and `prune --delete` before it deletes. Both, and all other commands on
a study, warn if the last start in the folder was of another config.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from reward_ablation.system.errors import StudyError, storage_errors
from reward_ablation.system.locks import Lock, hold_lock, last_change
from reward_ablation.system.plain_values import printable

#: The lock's file, in the results folder.
LOCK = ".lock"
#: File in the results folder with the path of the config of the last start, from the working folder.
CONFIG = ".config"
#: Bytes of free space that a start needs; a small study's tables need more.
LEAST_SPACE = 1 << 20
_AGAIN = "run the same command again"


class ResultsFolder:
    """The results folder of a Snakemake that is about to plan its jobs.

    Snakemake's own lock is a file that outlives SIGKILL and a power cut; the lock here does not. The lock is taken
    before the first job but after the plan, because a dry run plans, too. If another Snakemake worked here between plan
    and lock, the plan is out of date: its jobs would delete the other's results, and make them again.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._planned_at = last_change(folder / LOCK)  # of the lock, as this process began to plan

    def other_config(self, files: Sequence[str | Path]) -> list[str]:
        """A warning if the last start here was of another config, whose file still exists; else none."""
        try:
            other = (self.folder / CONFIG).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return []
        if not os.path.isfile(other) or os.path.samefile(other, files[0]):
            return []
        return [
            f"{self.folder}: the last start there was that of {printable(other)}; two studies in one folder replace "
            "each other's tables and figures: give one of them another name"
        ]

    def record_config(self, files: Sequence[str | Path]) -> None:
        with storage_errors(self.folder):
            (self.folder / CONFIG).write_text(os.path.relpath(files[0]), encoding="utf-8")

    def claim(self, space: int = LEAST_SPACE) -> Lock:
        """Lock the folder until this process ends or the lock is released; `space` bytes must be free."""
        with storage_errors(self.folder):
            advice = f"wait until it is done or stop it, then {_AGAIN}"
            lock = hold_lock(self.folder / LOCK, f"{self.folder}: {{holder}} works there; {advice}")
            if lock.last_change != self._planned_at:
                lock.release()
                raise StudyError(
                    f"{self.folder}: another Snakemake worked there while this one planned its jobs; {_AGAIN}"
                )
            probe = self.folder / f".{os.getpid()}.tmp"
            try:
                probe.write_bytes(bytes(space))
            finally:
                probe.unlink(missing_ok=True)
        return lock


def check_working_folder(folder: Path) -> None:
    """Refuse a folder where Snakemake cannot keep its records. Snakemake itself would print a traceback."""
    try:
        (folder / ".snakemake").mkdir(exist_ok=True)
    except OSError as error:
        raise StudyError(
            f"{folder / '.snakemake'}: {error.strerror}; Snakemake keeps its records in the folder where it is "
            "started: start it in a folder that you can write to, or name such a folder with --directory"
        ) from None
