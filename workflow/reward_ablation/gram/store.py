"""The files of sample Gram matrices, the inner products of single completions' gradients.

Training makes the tables of a step here and writes them; `analysis` reads the files. Arrays are stored as lists in
Parquet, which can be read anywhere. A block is one micro-batch of one process, a family one backward pass over it
(`training.core.gradients`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.system.errors import StudyError

GRAMS_FILE, ROWS_FILE = "sample_grams.parquet", "sample_gram_rows.parquet"

#: Columns of `sample_grams.parquet`. `cosines` is the triangle above the diagonal, row by row, of the Gram matrix of
#: the rows at unit length. Half precision is accurate to 5e-4 of a cosine's size if that is above 6e-5, for any norms.
GRAM_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("block", pa.int64()),
        ("layer", pa.string()),
        ("norms", pa.list_(pa.float32())),
        ("cosines", pa.list_(pa.float16())),
    ]
)

#: Columns of `sample_gram_rows.parquet`: the completion, and which of its tokens, that a row of a Gram matrix is for.
#: On policy a row is -token_weight times the gradient of the completion's log-probability, if its tokens count alike.
ROW_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("block", pa.int64()),
        ("row", pa.int64()),
        ("generation_step", pa.int64()),
        ("problem_id", pa.string()),
        ("rollout", pa.int64()),
        ("family", pa.string()),
        ("token_weight", pa.float32()),
    ]
)


@dataclass(frozen=True)
class StoredBlock:
    """Sample Gram matrices of one block, read from the files."""

    layers: list[str]  # in the model's order
    grams: np.ndarray  # (L, R, R), float64
    rows: pd.DataFrame  # of the R rows: generation_step, problem_id, rollout, family and token_weight

    def without(self, family: str) -> StoredBlock:
        """The block without the rows of a family."""
        kept = (self.rows["family"] != family).to_numpy()
        return StoredBlock(self.layers, self.grams[:, kept][:, :, kept], self.rows[kept])


def _table(schema: pa.Schema, *columns: Any) -> pa.Table:
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


def _lists(values: np.ndarray, kept: np.ndarray | None = None) -> pa.ListArray:
    """Rows of an (N, D) array as Arrow lists; rows that are not kept become empty lists."""
    kept = np.full(len(values), True) if kept is None else kept
    offsets = np.concatenate([[0], np.cumsum(kept * values.shape[1])]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[kept].ravel()))


def gram_table(step: int, block: int, layers: Sequence[str], grams: np.ndarray) -> pa.Table:
    """Symmetric (L, R, R) Gram matrices of one block as rows of `sample_grams.parquet`; zero rows have cosines of 0."""
    norms = np.sqrt(np.maximum(np.diagonal(grams, axis1=1, axis2=2), 0.0)).astype(np.float64)
    first, second = np.triu_indices(grams.shape[1], 1)
    products = norms[:, first] * norms[:, second]
    cosines = np.divide(grams[:, first, second], products, out=np.zeros_like(products), where=products > 0)
    stored = _lists(norms.astype(np.float32)), _lists(np.clip(cosines, -1, 1).astype(np.float16))
    return _table(GRAM_SCHEMA, [step] * len(layers), [block] * len(layers), layers, *stored)


def row_table(
    step: int,
    block: int,
    generation_steps: Sequence[int],
    problem_ids: Sequence[str],
    rollouts: Sequence[int],
    families: Sequence[str],
    token_weights: Sequence[float],
) -> pa.Table:
    """Description of the rows of a step's block, as rows of `sample_gram_rows.parquet`.

    `families` say which tokens of the completion count, and how, such as all_tokens. `token_weights` are minus the
    derivative of the loss at advantage 1 by a token's log-probability, averaged over the completion's tokens.
    """
    size = len(problem_ids)
    described = generation_steps, problem_ids, rollouts, families, token_weights
    return _table(ROW_SCHEMA, [step] * size, [block] * size, range(size), *described)


def _read_steps(path: Path, steps: Collection[int]) -> pa.Table:
    if not path.exists():
        raise StudyError(f"{path}: there is no such file; `reward-ablation verify` names what a run has lost")
    return pq.read_table(path, filters=[("step", "in", [*steps])])


def _not_measured(path: Path, step: int) -> StudyError:
    return StudyError(f"{path}: step {step} was not measured; gradients.every says which steps are")


class StoredGrams:
    """Sample Gram matrices of some steps of a run, by step, made when asked for; `rows` describes the rows of all."""

    def __init__(self, folder: Path, steps: Collection[int]):
        self._path = Path(folder) / GRAMS_FILE
        self._grams, rows = (_read_steps(Path(folder) / name, steps) for name in (GRAMS_FILE, ROWS_FILE))
        described = rows.to_pandas().sort_values(["step", "block", "row"], ignore_index=True)
        self.rows = described.drop(columns=["step", "block", "row"]).astype({"problem_id": object, "family": object})
        self._blocks: dict[int, list[tuple[int, np.ndarray]]] = {}
        for (step, block), places in described.groupby(["step", "block"]).indices.items():
            self._blocks.setdefault(step, []).append((block, places))
        self._numbers = [self._grams[name].to_numpy() for name in ("step", "block")]

    def __getitem__(self, step: int) -> list[StoredBlock]:
        if step not in self._blocks:
            raise _not_measured(self._path, step)
        return [self._block(step, block, self.rows.iloc[places]) for block, places in self._blocks[step]]

    def _block(self, step: int, block: int, rows: pd.DataFrame) -> StoredBlock:
        steps, blocks = self._numbers
        stored = self._grams.take(np.flatnonzero((steps == step) & (blocks == block)))
        size, layers = len(rows), stored["layer"].to_pylist()
        norms, cosines = (
            stored[name].combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float64)
            for name in ("norms", "cosines")
        )
        norms = norms.reshape(len(layers), size)
        matrices = np.zeros((len(layers), size, size))
        matrices[:, *np.triu_indices(size, 1)] = cosines.reshape(len(layers), size * (size - 1) // 2)
        matrices += matrices.swapaxes(1, 2) + np.eye(size)
        return StoredBlock(layers, matrices * norms[:, :, None] * norms[:, None, :], rows)
