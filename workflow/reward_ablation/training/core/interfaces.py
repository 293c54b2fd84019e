"""What the trainer gets from outside the core: a sink for its measurements, and a combination of components.

`training.around.live_parts` is the sink, `combination.of_run` the combination. The core knows a sink by its type alone,
so that a change of how tables are written trains no run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

#: Table of what the method gave each component at each generation: its weight, and what else the method tells of it.
WEIGHTS = "weights"


class Sink(Protocol):
    """Receives what one process of a run measures, step by step."""

    # Receives a step's rows of a table. Steps count from 1.
    def add(self, name: str, table: pa.Table, step: int) -> None: ...

    def add_arrays(self, step: int, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Receive a step's whole gradients by name. `arrays` is called when there is room for the gradients."""

    # The rows of an optimiser step are complete. Every process says so.
    def end_step(self) -> None: ...


class Combination(Protocol):
    """A method that combines components in place of TRL, and its state, which is the same in all processes."""

    @property
    def names(self) -> Sequence[str]:
        """The K components that take part, in the order of the spec's components, which is alphabetical."""

    @property
    def looks_ahead(self) -> bool:
        """Whether the gradients of the completions are to be measured before `component_advantages` is called."""

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
        """Take note of a measured step's gradients, rows of `gradients.parquet`.

        If the method looks ahead, it is called before `component_advantages`, too.
        """

    def table(self, step: int) -> pa.Table:
        """Rows of `weights.parquet` for the last generation batch. `step` is the coming step."""
