"""Gram matrices that methods of combination use: the matrix of one step, or an average over steps.

The inner products of one step's gradients are biased by noise. The gradients share completions, so that the expectation
is ``<g_k, g_l> + tr Cov(g_k, g_l)``. The second term mirrors the correlation of the scores. Products of different
prompts do not have this term, because their completions are independent. A matrix of such products from one step is
indefinite more often than not. These matrices are therefore averaged, and the average is projected on the positive
semi-definite matrices.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from reward_ablation.gram.similarity import ALL_LAYERS

#: Which Gram matrix a method gets.
Source = Literal["same_step", "previous", "averaged", "unbiased"]

#: All values of `Source`.
SOURCES: tuple[str, ...] = get_args(Source)

#: Sources that take the matrix of one step without an average.
_OF_ONE_STEP = ("same_step", "previous")

#: Share of the average that remains after a step. The average is over about ten steps.
DECAY = 0.9

#: A projected matrix counts as zero if its trace is at most this number.
NOTHING = 1e-9


def products(gradients: pa.Table, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Inner products of a step's component gradients: over all pairs of completions, and over different prompts alone.

    `gradients` has the rows of `gradients.parquet` of one step, with the definition `alone` of all named components.
    Both results are symmetric (K, K) float64 arrays in the scale of the whole gradients. The rows of components without
    a gradient are zero.
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
    """The state after a measured step, from the state after the last one, which is empty at first.

    The average is exponential. Each matrix is first divided by the mean squared length of the step's gradients, so that
    steps with large gradients do not dominate.

    `total` and `across`, each (K, K), are the results of `products`. The state has JSON values: `matrix`, the number
    `steps` of steps in the average, and `step`, the last measured step. A step without any gradient changes nothing.
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
    """The (K, K) Gram matrix of a state, positive semi-definite; None if there is none yet, or its projection is zero.

    The average starts at zero, and is therefore divided by the total weight of its steps (Kingma and Ba 2015, arXiv
    1412.6980, section 3). The projection of an unbiased average is zero if it has no positive eigenvalue.
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
