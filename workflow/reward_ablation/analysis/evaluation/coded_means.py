"""Question means of yes-or-no verdicts, many times faster: from answers whose texts are read as categories."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from functools import lru_cache

import numpy as np
import pandas as pd

#: The latest results of `_ranks`, each with its names.
_RANKS: deque[tuple[pd.Index, tuple[np.ndarray, tuple[str, ...]]]] = deque(maxlen=8)


def is_coded(answers: pd.DataFrame, columns: Collection[str]) -> bool:
    """Whether the labels are categories, and these columns have truth values or whole numbers."""
    labels = all(isinstance(answers[name].dtype, pd.CategoricalDtype) for name in ("mode", "problem_id"))
    return labels and all(answers[name].dtype.kind in "bi" for name in columns)


def cells_of(answers: pd.DataFrame) -> tuple[np.ndarray, pd.MultiIndex]:
    """Number of each answer's cell, which is its mode and question, and the sorted index of the cells."""
    codes, names = zip(*(_sorted_codes(answers[name]) for name in ("mode", "problem_id")), strict=True)
    cell = codes[0].astype(np.int64) * len(names[1]) + codes[1]
    present = np.bincount(cell, minlength=len(names[0]) * len(names[1])) > 0
    index = _index(*names, None if present.all() else present.tobytes())
    return (cell if present.all() else (np.cumsum(present) - 1)[cell]), index


def _sorted_codes(column: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    """Code of each value among the sorted categories, and these categories."""
    ranks, names = _ranks(column.cat.categories)
    return ranks[column.cat.codes.to_numpy()], names


def _ranks(names: pd.Index) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rank of each name, and the sorted names; cached, since files have the same names in the same order."""
    for cached, result in _RANKS:
        if cached.equals(names):
            return result
    texts = names.to_numpy(dtype=object)
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


def table_of(columns: dict[str, np.ndarray], together: Collection[str], index: pd.MultiIndex) -> pd.DataFrame:
    """Table of columns by name.

    The columns in `together` lie in memory row by row, and each other column by itself, as where pandas groups answers.
    A sum over questions then adds numbers in the same order, and is the same to the last digit.
    """
    by_row = np.column_stack([columns[name] for name in columns if name in together])
    first = pd.DataFrame(by_row, index=index, columns=[name for name in columns if name in together], copy=False)
    others = pd.DataFrame({name: values for name, values in columns.items() if name not in together}, index=index)
    return pd.concat([first, others], axis="columns")[list(columns)]
