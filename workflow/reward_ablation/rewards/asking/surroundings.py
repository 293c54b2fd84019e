"""Where the answers of endpoints are kept, and where requests are counted: known to the program that scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Here:
    """The folders of this process."""

    answers: Path | None = None
    counts: Path | None = None


@contextmanager
def asking(answers: Path | None, counts: Path | None) -> Iterator[None]:
    """Keep answers and count requests in these folders, as long as the block lasts; None: not at all.

    Parameters
    ----------
    answers : Path, optional
        Shared by all programs of a study, so that nothing is asked twice.
    counts : Path, optional
        Of one run or one scoring: `usage.counted` reads it.
    """
    before = _Here.answers, _Here.counts
    _Here.answers, _Here.counts = answers, counts
    try:
        yield
    finally:
        _Here.answers, _Here.counts = before


def answers_folder() -> Path | None:
    """Where answers are kept; None where no folder is known."""
    return _Here.answers


def counts_folder() -> Path | None:
    """Where requests are counted; None where no folder is known."""
    return _Here.counts
