"""Question means of yes-or-no verdicts, many times faster: from answers whose texts are read as dictionaries."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa

from reward_ablation.analysis.evaluation.run_means import QuestionMeans

#: The latest results of `_ranks`, each with its names.
_RANKS: deque[tuple[pa.Array, tuple[np.ndarray, tuple[str, ...]]]] = deque(maxlen=8)


def is_coded(answers: pa.Table, columns: Collection[str]) -> bool:
    """Whether the labels are dictionaries, and these columns have truth values or whole numbers, all without nulls."""
    types = {name: answers.schema.field(name).type for name in ("mode", "problem_id", *columns)}
    labels = all(pa.types.is_dictionary(types.pop(name)) for name in ("mode", "problem_id"))
    verdicts = all(pa.types.is_boolean(kind) or pa.types.is_integer(kind) for kind in types.values())
    return labels and verdicts and not any(answers[name].null_count for name in ("mode", "problem_id", *columns))


def codes_of(column: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Place of each value in a dictionary, -1 for a null, and the dictionary."""
    array = column.unify_dictionaries().combine_chunks()
    return array.indices.fill_null(-1).to_numpy(), array.dictionary


def cells_of(answers: pa.Table) -> tuple[np.ndarray, pd.MultiIndex]:
    """Number of each answer's cell, which is its mode and question, and the sorted index of the cells."""
    codes, names = zip(*(_sorted_codes(answers[name]) for name in ("mode", "problem_id")), strict=True)
    cell = codes[0].astype(np.int64) * len(names[1]) + codes[1]
    present = np.bincount(cell, minlength=len(names[0]) * len(names[1])) > 0
    index = _index(*names, None if present.all() else present.tobytes())
    return (cell if present.all() else (np.cumsum(present) - 1)[cell]), index


def _sorted_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Place of each value among the sorted names of the dictionary, and these names."""
    codes, dictionary = codes_of(column)
    ranks, names = _ranks(dictionary)
    return ranks[codes], names


def _ranks(names: pa.Array) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rank of each name, and the sorted names; cached, since files have the same names in the same order."""
    for cached, result in _RANKS:
        if cached.equals(names):
            return result
    texts = names.to_numpy(zero_copy_only=False)
    order = np.argsort(texts)
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[order] = np.arange(len(names))
    _RANKS.append((names, (ranks, tuple(texts[order]))))
    return _RANKS[-1][1]


@lru_cache(maxsize=16)
def _index(modes: tuple[str, ...], problems: tuple[str, ...], present: bytes | None) -> pd.MultiIndex:
    index = pd.MultiIndex.from_product([modes, problems], names=["mode", "problem_id"])
    return index if present is None else index[np.frombuffer(present, dtype=bool)]


def means_of_cells(values: dict[str, np.ndarray], cell: np.ndarray, cells: int) -> dict[str, np.ndarray]:
    """Means of truth values or whole numbers over the answers of each cell, and the number of these `answers`."""
    answers = np.bincount(cell, minlength=cells)
    sums = {name: np.bincount(cell, weights=column, minlength=cells) for name, column in values.items()}
    return {"answers": answers, **{name: of_column / answers for name, of_column in sums.items()}}


def means_in_memory(columns: dict[str, np.ndarray], together: Collection[str], index: pd.Index) -> QuestionMeans:
    """Question means whose columns lie in memory as in a table of pandas.

    The columns in `together` lie in memory row by row, and each other column by itself, as where pandas groups answers.
    A sum over questions then adds numbers in the same order, and is the same to the last digit.
    """
    by_row = np.column_stack([columns[name] for name in columns if name in together]) if together else np.empty((0, 0))
    names = [name for name in columns if name in together]
    return QuestionMeans(columns | dict(zip(names, by_row.T, strict=True)), index)
