"""Checks before the first job: no other Snakemake works in the results folder, and this one can write there."""

from __future__ import annotations

import os
from pathlib import Path

from reward_ablation.system.errors import StudyError, storage_errors
from reward_ablation.system.locks import Lock, hold_lock, last_change

#: The lock's file, in the results folder.
LOCK = ".lock"

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
        self._planned_at = last_change(folder / LOCK)

    def claim(self, space: int = LEAST_SPACE) -> Lock:
        """Lock the folder until this process ends.

        `space` is the number of bytes that must be free there; 0 for a start that only deletes, as a full disk asks
        for. Raises StudyError if another Snakemake works in the folder or did so since the plan, or if nothing can be
        written there.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise StudyError(f"{self.folder}: is not a folder; name another folder with the key `results`")
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
