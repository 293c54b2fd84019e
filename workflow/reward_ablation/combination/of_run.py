"""A run's combination: the method with its state, the Gram matrices that it uses, and the log of its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from reward_ablation.combination.call import call_method
from reward_ablation.combination.grams import Source, gram_of, products, with_step
from reward_ablation.combination.interface import Combined, Method
from reward_ablation.combination.normalisation import by_group

#: Columns of `weights.parquet`, a row for each component and generation.
#:
#: - step: the optimiser step that the generation is for, as in `rollouts.parquet`.
#: - weight: the method's weight or multiplier of the component; null if the method has none.
#: - conflicts: share of completions, or of pairs of components, in conflict; null if the method defines no conflict.
#: - dead: share of groups in which the component has the same score for all completions.
#: - advantage_rms: root mean square of the component's part of the advantages.
#: - total_rms: root mean square of the advantages, the same in all rows of a step.
#: - gram_step: the last step whose gradients the method used; null at first, and for a method that uses none.
SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("component", pa.string()),
        *((name, pa.float64()) for name in ("weight", "conflicts", "dead", "advantage_rms", "total_rms")),
        ("gram_step", pa.int64()),
    ]
)


class CombineSettings(Protocol):
    """The combination in a run's spec."""

    @property
    def method(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    @property
    def gram(self) -> Source | None: ...

    @property
    def bounds(self) -> Mapping[str, Sequence[float]]: ...


class CombinationOfRun:
    """Combines the scores of each generation. This is the trainer's `Combination`.

    `settings` is the combination in the run's spec. `weights` has the K components that take part, in the order of the
    study's components.
    """

    def __init__(self, method: Method, settings: CombineSettings, weights: Mapping[str, float]):
        self.method = method
        self.settings = settings
        self.names = tuple(weights)
        self.weights = np.array([*weights.values()], dtype=float)
        unknown = (np.nan, np.nan)
        self.bounds = np.array([settings.bounds.get(name, unknown) for name in self.names], dtype=float)
        self.state: dict[str, Any] = {"method": {}, "gram": {}}
        self._columns: dict[str, Any] = {}

    @property
    def looks_ahead(self) -> bool:
        """Whether the method uses the gradients of the same completions whose scores it combines."""
        return self.settings.gram == "same_step"

    def shares(
        self, scores: np.ndarray, groups: np.ndarray, tokens: np.ndarray, step: int, learning_rate: float
    ) -> np.ndarray:
        """(N, K) parts of the advantages by component; see `training.core.combination`."""
        settings, seen = self.settings, self.state["gram"]
        combined = call_method(
            self.method,
            settings.method,
            settings.parameters,
            scores,
            groups,
            self.weights,
            self.state["method"],
            names=self.names,
            gram=gram_of(seen, settings.gram) if settings.gram else None,
            step=step,
            bounds=self.bounds,
            tokens=tokens,
            learning_rate=learning_rate,
        )
        self.state = {**self.state, "method": combined.state}
        self._columns = {**columns_of(combined, scores, groups), "gram_step": seen.get("step")}
        return combined.advantages

    def see(self, gradients: pa.Table) -> None:
        """Update the state of the Gram matrix with the gradients of a measured step."""
        if self.settings.gram:
            step = gradients["step"][0].as_py()
            matrices = products(gradients, self.names)
            self.state = {**self.state, "gram": with_step(self.state["gram"], step, *matrices, self.settings.gram)}

    def table(self, step: int) -> pa.Table:
        """Rows of `weights.parquet` for the last generation; `step` is the step that it is for."""
        size = len(self.names)
        columns = {"step": step, "component": list(self.names), **self._columns}
        rows = {name: value if isinstance(value, list) else [value] * size for name, value in columns.items()}
        return pa.table(rows, schema=SCHEMA)


def columns_of(combined: Combined, scores: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """Columns of `SCHEMA` that describe how a generation was combined: numbers, or lists of a number per component."""
    same = [[_alike(of_group) for of_group in part.T] for part in by_group(scores, groups)]
    return {
        "weight": None if combined.weights is None else combined.weights.tolist(),
        "conflicts": combined.conflicts,
        "dead": np.mean(same, axis=0).tolist(),
        "advantage_rms": np.sqrt(np.square(combined.advantages).mean(axis=0)).tolist(),
        "total_rms": float(np.sqrt(np.square(combined.advantages.sum(axis=1)).mean())),
    }


def _alike(scores: np.ndarray) -> bool:
    known = scores[~np.isnan(scores)]
    return len(known) == 0 or bool(known.max() == known.min())
