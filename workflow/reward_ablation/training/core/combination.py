"""What the trainer asks of a way to combine components that is not TRL's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

#: Table of the components' weights at each generation.
WEIGHTS = "weights"


class Combination(Protocol):
    """A method and its state: all processes have the same, as all of them see the same scores and gradients."""

    @property
    def names(self) -> Sequence[str]:
        """The K components that take part, in the order of the study's components."""

    @property
    def looks_ahead(self) -> bool:
        """Whether it goes by the gradients of the very completions that it combines: they are measured before."""

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: JSON values."""

    @state.setter
    def state(self, state: dict[str, Any]) -> None: ...

    def shares(
        self, scores: np.ndarray, groups: np.ndarray, tokens: np.ndarray, step: int, learning_rate: float
    ) -> np.ndarray:
        """Parts of the advantages of a generation batch, by component.

        Parameters
        ----------
        scores : (N, K) float64 array
            Raw scores of all processes' completions, NaN where a component gave none.
        groups, tokens : (N,) int arrays
            Number of each completion's group, and its length.
        step : int
            Optimiser steps that are done.
        learning_rate : float
            Of the coming step.

        Returns
        -------
        (N, K) array
            Rows sum to the advantage of the completion.
        """

    def see(self, gradients: pa.Table) -> None:
        """Take note of a measured step's gradients, as rows of `gradients.parquet`."""

    def table(self, step: int) -> pa.Table:
        """Rows of `weights.parquet` of the last generation."""
