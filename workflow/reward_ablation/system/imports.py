"""Imports that bring a million objects, as torch's and TRL's do."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def large_imports() -> Iterator[None]:
    """Keep Python's collector of cycles from what is imported here: not while it is imported, and not later.

    It would look through all of it again and again, for a second of each process.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
