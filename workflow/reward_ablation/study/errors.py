"""Errors that a user can mend, told in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class StudyError(ValueError):
    """What is wrong, where, and what to do, in one line."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print a StudyError as one line to stderr and exit with status 1; other errors keep their traceback."""
    try:
        yield
    except StudyError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
