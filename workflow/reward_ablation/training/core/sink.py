"""Where a run's tables and arrays go: what surrounds the training hands in the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa


class Sink(Protocol):
    """Takes what one process of a run measures, step by step."""

    def add(self, name: str, table: pa.Table, step: int) -> None:
        """Take a step's rows of a table."""

    def add_arrays(self, step: int, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Take a step's whole gradients by name; they are asked for when there is room for them."""

    def end_step(self) -> None:
        """Note that all rows of an optimiser step are there."""
