"""Faster imports of packages with a million objects, such as torch and TRL.

The commands of training, the supervised start and evaluation import torch within `large_imports`, as does the check of
fetched models.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def large_imports() -> Iterator[None]:
    """Keep Python's garbage collector from visiting, now and later, what is imported here: a second a process."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
