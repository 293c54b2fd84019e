"""A run's combination: the method with its state, the Gram matrices that it uses, and the log of its weights.

Each run whose arm names a method other than TRL's two has one: its trainer calls it at each generation and each
measured step. The tables of combinations replay finished runs with it. It keeps a method's state, because methods are
plain functions.

A method gets the Gram matrix of one step, or an average over steps. The inner products of one step's gradients are
biased by noise. The gradients g_k and g_l of two components share completions, so that the expectation of their product
is ``<E g_k, E g_l> + tr Cov(g_k, g_l)``. The second term mirrors the correlation of the scores. Products of different
prompts do not have this term, because their completions are independent. A matrix of such products from one step is
indefinite more often than not. These matrices are therefore averaged, and the average is projected on the positive
semi-definite matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np
import pyarrow as pa

from reward_ablation.combination.call import call_method
from reward_ablation.combination.interface import Combined, Method
from reward_ablation.combination.normalisation import by_group
from reward_ablation.gram.similarity import ALL_LAYERS

#: Which Gram matrix a method gets: that of the completions whose scores it combines (`same_step`), that of the last
#: measured step, an average over steps, or an average of the products of different prompts (`unbiased`).
Source = Literal["same_step", "previous", "averaged", "unbiased"]

#: All values of `Source`.
SOURCES: tuple[str, ...] = get_args(Source)

#: Sources that take the matrix of one step without an average.
_OF_ONE_STEP = ("same_step", "previous")

#: Share of the average that remains after a step. The average is over about ten steps.
DECAY = 0.9

#: A projected matrix counts as zero if its trace is at most this number; 1 is the gradients' mean squared length.
NOTHING = 1e-9

#: Columns of `weights.parquet`, a row for each component and generation.
#:
#: - step: the optimiser step that the generation is for, as in `rollouts.parquet`.
#: - weight: the method's weight or multiplier of the component; null if the method has none.
#: - conflicts: share of completions, or of pairs of components, in conflict; null if the method defines no conflict.
#: - dead: share of groups in which the component has the same score for all completions that have one, or no score.
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
    """Combines the scores of each generation: the trainer's `Combination`; `weights` has the K components."""

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

    def component_advantages(
        self, scores: np.ndarray, groups: np.ndarray, tokens: np.ndarray, step: int, learning_rate: float
    ) -> np.ndarray:
        """(N, K) parts of the advantages by component; see `training.core.interfaces`."""
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


def products(gradients: pa.Table, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Inner products of a step's gradients, (K, K) each: over all pairs of completions, and over different prompts.

    They are in the scale of the whole gradients; rows of components without a gradient are zero.
    """
    places = {name: place for place, name in enumerate(names)}
    total, across = np.zeros((2, len(names), len(names)))
    columns = ("layer", "definition", "component_a", "component_b", "dot", "cross_prompt", "norm_a", "norm_b")
    for row in gradients.select(columns).to_pylist():
        if row["layer"] != ALL_LAYERS or row["definition"] != "alone":
            continue
        if row["component_a"] in places and row["component_b"] in places:
            pair = places[row["component_a"]], places[row["component_b"]]
            share = row["cross_prompt"]  # of the cosine
            between = 0.0 if share is None else share * row["norm_a"] * row["norm_b"]
            for matrix, value in ((total, row["dot"]), (across, between)):
                matrix[pair] = matrix[pair[::-1]] = value
    return total, across


def with_step(
    state: dict[str, Any], step: int, total: np.ndarray, across: np.ndarray, source: Source
) -> dict[str, Any]:
    """The state after a measured step: in JSON, `matrix`, the number `steps` in the average, and the last `step`.

    Each matrix of the exponential average is first divided by the mean squared length of the step's gradients, so that
    steps with large gradients do not dominate. A step without any gradient changes nothing.
    """
    scale = np.trace(total) / len(total)
    if not scale > 0:
        return state
    if source in _OF_ONE_STEP:
        return {"matrix": total.tolist(), "steps": 1, "step": step}
    latest = (across if source == "unbiased" else total) / scale
    before = np.array(state["matrix"]) if state else np.zeros_like(latest)
    matrix = DECAY * before + (1 - DECAY) * latest
    return {"matrix": matrix.tolist(), "steps": state.get("steps", 0) + 1, "step": step}


def gram_of(state: dict[str, Any], source: Source) -> np.ndarray | None:
    """The (K, K) Gram matrix of a state; None if there is none yet, or its projection is zero.

    The average starts at zero, and is therefore divided by the total weight of its steps (Kingma and Ba 2015, arXiv
    1412.6980, section 3). An `unbiased` average is projected, so that it is positive semi-definite.
    """
    if not state:
        return None
    matrix = np.array(state["matrix"], dtype=float)
    if source in _OF_ONE_STEP:
        return matrix
    matrix = matrix / (1 - DECAY ** state["steps"])
    return projected(matrix) if source == "unbiased" else matrix


def projected(matrix: np.ndarray) -> np.ndarray | None:
    """The nearest positive semi-definite matrix in the Frobenius norm (Higham 1988); None if that is zero."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = np.maximum(values, 0.0)
    if kept.sum() <= NOTHING:
        return None
    result: np.ndarray = (vectors * kept) @ vectors.T
    return result
