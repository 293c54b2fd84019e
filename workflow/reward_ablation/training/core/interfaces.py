"""What the trainer gets from outside the core: a sink for its measurements, and a combination of components.

The core knows a run's spec by its type alone, which it imports for mypy: code of `study` cannot change a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

#: Table of the components' weights at each generation.
WEIGHTS = "weights"


class Sink(Protocol):
    """Receives what one process of a run measures, step by step."""

    def add(self, name: str, table: pa.Table, step: int) -> None: ...

    def add_arrays(self, step: int, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Receive a step's whole gradients by name. `arrays` is called when there is room for the gradients."""

    def end_step(self) -> None: ...


class Combination(Protocol):
    """A method that combines components in place of TRL, and its state.

    The state is the same in all processes, because all of them see the same scores and gradients.
    """

    @property
    def names(self) -> Sequence[str]:
        """The K components that take part, in the order of the study's components."""

    @property
    def looks_ahead(self) -> bool:
        """Whether the method needs the gradients of the completions that it combines.

        If so, these gradients are measured before `component_advantages` is called.
        """

    @property
    def state(self) -> dict[str, Any]:
        """The part of the method that a checkpoint keeps, as JSON values."""

    @state.setter
    def state(self, state: dict[str, Any]) -> None: ...

    def component_advantages(
        self, scores: np.ndarray, groups: np.ndarray, tokens: np.ndarray, step: int, learning_rate: float
    ) -> np.ndarray:
        """Parts of a generation batch's advantages by component, (N, K). Each row sums to a completion's advantage.

        `scores`, (N, K) in float64, are raw scores of all processes' completions, with NaN where a component gave none.
        `groups` and `tokens`, (N,), are group number and length, in tokens, of each completion. `step` is the number of
        finished optimiser steps, and `learning_rate` that of the coming step.
        """

    def see(self, gradients: pa.Table) -> None:
        """Take note of a measured step's gradients, as rows of `gradients.parquet`."""

    def table(self, step: int) -> pa.Table:
        """Rows of `weights.parquet` for the last generation batch."""
