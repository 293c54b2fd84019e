"""CSV text of tables: the bytes of `DataFrame.to_csv(index=False)`, made column by column, several times faster.

Two things differ, because a model or the author of a data set may have written any text. An apostrophe stands before a
cell that a spreadsheet would run as a formula. A cell with a carriage return is in quotes: otherwise the rest of the
text would begin a cell of its own. The Parquet files have all texts as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

#: Type of the cells' texts; plain strings of Arrow would hold no more than 2 GB at once.
TEXT = pa.large_string()

#: Rows that are written at once.
ROWS_AT_ONCE = 100_000

#: NumPy and Arrow both write numbers in [LEAST_PLAIN, MOST_PLAIN) without an exponent.
LEAST_PLAIN, MOST_PLAIN = 1e-4, 1e6

#: Cells that spreadsheets may run, by OWASP's list, and also behind white space; but no numbers.
FORMULA = re.compile(
    r"(?![+-]?(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?%?\Z|[+-](inf|nan)\Z)"
    r"([\t\r\n]|[\s\0\ufeff\u200b]*[=+\-@＝＋－＠])",
    re.IGNORECASE,
)


def csv_header(frame: pd.DataFrame) -> bytes:
    """The line with the names of the columns."""
    return ",".join(_quoted(frame.columns)).encode() + b"\n"


def csv_lines(frame: pd.DataFrame) -> Iterator[memoryview]:
    """Lines of a table's rows, `ROWS_AT_ONCE` at a time; nulls are empty cells."""
    for first in range(0, len(frame), ROWS_AT_ONCE):
        rows = frame.iloc[first : first + ROWS_AT_ONCE]
        cells = [_cells(rows.iloc[:, column]) for column in range(rows.shape[1])]
        lines = pc.binary_join_element_wise(*cells, pa.scalar(",", TEXT), null_handling="replace")
        yield _bytes(pc.binary_join_element_wise(lines, *pa.array(["", "\n"], TEXT)))


def _cells(column: pd.Series) -> pa.Array:
    """The column's values as they are written, null where a cell is empty."""
    if column.dtype.kind == "f":
        return _numbers(column.to_numpy())
    if column.dtype.kind == "b" and column.dtype == bool:
        return pc.if_else(pa.array(column.to_numpy()), "True", "False").cast(TEXT)
    if column.dtype.kind in "iu":
        return pa.array(column, from_pandas=True).cast(TEXT)
    distinct = _texts(column).dictionary_encode()
    return pa.array(_quoted(distinct.dictionary.to_pylist()), TEXT).take(distinct.indices)


def _texts(column: pd.Series) -> pa.Array:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pa.array(column).dictionary_decode().cast(TEXT)
    if isinstance(column.dtype, pd.StringDtype):
        texts = pa.array(column, from_pandas=True)
        return (texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts).cast(TEXT)
    known = column.notna().to_numpy()
    return pa.array([str(value) if has else None for value, has in zip(column, known, strict=True)], TEXT)


def _numbers(values: np.ndarray) -> pa.Array:
    """Floating-point numbers with the fewest digits that read back as the same number."""
    texts = pa.array(values, from_pandas=True).cast(TEXT)
    size = np.abs(values)
    whole = values == np.rint(values)
    if whole.any():
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, *pa.array([".0", ""], TEXT)), texts)
    with_exponent = ((size < LEAST_PLAIN) & (size > 0)) | (size >= MOST_PLAIN)
    return pc.replace_with_mask(texts, pa.array(with_exponent), pa.array(values[with_exponent].astype(str), TEXT))


def _quoted(texts: Iterable[str]) -> list[str]:
    """Texts as cells, in quotes where CSV needs them, and after an apostrophe where a spreadsheet would run them."""
    cells = []
    for text in texts:
        line = io.StringIO(newline="")
        csv.writer(line, lineterminator="\r\n").writerow([f"'{text}" if FORMULA.match(text) else text, ""])
        cells.append(line.getvalue()[:-3])
    return cells


def _bytes(lines: pa.Array) -> memoryview:
    """The bytes of an array of texts, one text after the other."""
    _, offsets, characters = lines.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(characters)[ends[0] : ends[-1]] if len(lines) else memoryview(b"")
