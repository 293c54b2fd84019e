"""What must hold before the first job: one Snakemake works in the results folder, and can write there."""

from __future__ import annotations

import os
from pathlib import Path

from reward_ablation.system.errors import StudyError, storage_errors
from reward_ablation.system.locks import Lock, held, last_change

#: The lock's file, in the results folder.
LOCK = ".lock"

#: Bytes that must fit: with less space than this not even a small study's tables do.
LEAST_SPACE = 1 << 20

_AGAIN = "run the same command again"


class ResultsFolder:
    """The results folder of a Snakemake that is about to plan its jobs.

    Snakemake's own lock is a file that outlives SIGKILL and a power cut; this one does not. It is taken before the
    first job but after the plan, which a dry run makes too. Where another Snakemake worked here in between, the plan
    is out of date: jobs would delete what that one has made, and make it again.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._planned_at = last_change(folder / LOCK)

    def claim(self) -> Lock:
        """Take the folder until this process ends; a StudyError where another Snakemake works there or just did."""
        if self.folder.exists() and not self.folder.is_dir():
            raise StudyError(f"{self.folder}: is not a folder; give the study another with the key results")
        with storage_errors(self.folder):
            advice = f"wait until it is done or stop it, then {_AGAIN}"
            lock = held(self.folder / LOCK, f"{self.folder}: {{holder}} works there; {advice}")
            if lock.last_change != self._planned_at:
                lock.release()
                raise StudyError(
                    f"{self.folder}: another Snakemake worked there while this one planned its jobs; {_AGAIN}"
                )
            probe = self.folder / f".{os.getpid()}.tmp"
            try:
                probe.write_bytes(bytes(LEAST_SPACE))
            finally:
                probe.unlink(missing_ok=True)
        return lock


def check_working_folder(folder: Path) -> None:
    """Refuse a folder where Snakemake cannot keep its records: it would tell so with a traceback."""
    try:
        (folder / ".snakemake").mkdir(exist_ok=True)
    except OSError as error:
        raise StudyError(
            f"{folder / '.snakemake'}: {error.strerror}; Snakemake keeps its records in the folder that it is started "
            "in: start it in one that can be written, or name one with --directory"
        ) from None
