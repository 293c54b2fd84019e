"""The order in which a run, its answers and their scores were made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from reward_ablation.start.damage import record_beside


def are_in_order(answers: Path, before: Sequence[Path] = (), after: Sequence[Path] = ()) -> bool:
    """Whether all files exist, and the answers were made after the files `before` and before the files `after`."""
    times = [*map(_made_at, before), _answers_made_at(answers), *map(_made_at, after)]
    return None not in times and times == sorted(times, key=lambda time: time or 0)


def _answers_made_at(answers: Path) -> int | None:
    """When answers were made, by the time of the record beside them.

    When Snakemake makes some answers of a run, it gives all of them a new time. The records beside them keep theirs.
    """
    changed = _made_at(answers)
    return changed if changed is None else (_made_at(Path(record_beside(str(answers)))) or changed)


def _made_at(path: Path) -> int | None:
    """When a file was last changed, in nanoseconds since 1970; None where the file does not exist."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.stat(path).st_mtime_ns
    return None
