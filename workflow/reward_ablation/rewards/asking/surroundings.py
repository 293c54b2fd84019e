"""The folders in which answers of endpoints are kept and requests are counted. The program that scores sets them."""

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
    """Keep answers and count requests in these folders for the length of a `with` block.

    All programs of a study share the folder of answers, so that no request is sent twice. The folder of counts is that
    of one run or one scoring, and `usage.counted` reads it. None keeps no answers, or counts nothing.
    """
    before = _Here.answers, _Here.counts
    _Here.answers, _Here.counts = answers, counts
    try:
        yield
    finally:
        _Here.answers, _Here.counts = before


def answers_folder() -> Path | None:
    """Folder in which answers are kept; None if none was set."""
    return _Here.answers


def counts_folder() -> Path | None:
    """Folder in which requests are counted; None if none was set."""
    return _Here.counts
