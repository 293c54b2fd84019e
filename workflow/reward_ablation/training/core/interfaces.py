"""What the trainer gets from outside the core: a sink for its measurements, and a combination of components.

`training.around.live_parts` is the sink, `combination.of_run` the combination. The core knows a sink by its type alone,
so that a change of how tables are written trains no run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

#: Name of the table with a component's weight and other numbers at each generation (`combination.of_run.SCHEMA`).
WEIGHTS = "weights"


class Sink(Protocol):
    """Receives what one process of a run measures, step by step. Steps count from 1."""

    # Receives a step's rows of a table.
    def add(self, name: str, table: pa.Table, step: int) -> None: ...

    def add_arrays(self, step: int, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Receive a step's whole gradients by name. `arrays` makes them, once memory has room for them."""

    # Learns that the rows of an optimiser step are complete; every process calls its own sink.
    def end_step(self) -> None: ...


class Combination(Protocol):
    """A method that combines components in place of TRL. Each process has one; all calls and states are the same."""

    @property
    def names(self) -> Sequence[str]:
        """The K components that take part, in the order of the spec's components, which is alphabetical."""

    @property
    def looks_ahead(self) -> bool:
        """Whether `see` gets a generation's own gradients before `component_advantages` combines its scores."""

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
        finished optimiser steps, one less than the coming step, whose learning rate is `learning_rate`.
        """

    def see(self, gradients: pa.Table) -> None:
        """Update the state with a measured step's gradients, rows of `gradients.parquet`, at the end of the step.

        If `looks_ahead`, also before `component_advantages`, and then again at the end where the step is measured.
        """

    def table(self, step: int) -> pa.Table:
        """Rows of `weights.parquet` for the last generation batch. `step`, which the rows show, is the coming step."""
