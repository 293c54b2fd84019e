"""Types of the columns of tables, and the writers of their CSV and Parquet files.

Each module that makes tables declares its columns and writes its rows here, part by part, so that memory does not fill.
No text from a model is written so that it acts as a formula in a spreadsheet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from markupsafe import Markup

from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page

#: Types of the columns of tables.
TEXT, COUNT, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

#: Pairs of a table's name and some of its rows, in the order of the rows. A table may come in many parts.
Parts = Iterable[tuple[str, pd.DataFrame]]

#: Rows that wait before they are written, and most that a Parquet file compresses together: pyarrow's default.
ROWS_OF_GROUP = 1 << 20

#: Columns of an estimate with its interval.
ESTIMATE = ((NUMBER, "estimate low high"), (COUNT, "seeds questions"))

#: Cells that spreadsheets may run as formulas, by OWASP's list, and also behind white space; but no numbers. A model or
#: the author of a data set may have written any text. An apostrophe before such a cell makes a text of it.
FORMULA = re.compile(
    r"(?![+-]?(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?%?\Z|[+-](inf|nan)\Z)"
    r"([\t\r\n]|[\s\0\ufeff\u200b]*[=+\-@＝＋－＠])",
    re.IGNORECASE,
)


def columns(*groups: tuple[pa.DataType, str]) -> pa.Schema:
    """Columns of a table in their order, as groups of one type; `columns.csv` says what each means. Any may be null.

    >>> columns((TEXT, "arm"), (COUNT, "seed step")).names
    ['arm', 'seed', 'step']
    """
    return pa.schema([(name, kind) for kind, names in groups for name in names.split()])


def joined(schema: pa.Schema, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all parts under the columns of a table; an empty table where there is no row."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[schema.names] if filled else pd.DataFrame(columns=schema.names)


class TableFiles:
    """The two files of a table while parts are added; `ROWS_OF_GROUP` rows wait, so that memory does not grow."""

    def __init__(self, name: str, folder: Path, schema: pa.Schema, csv_only: Collection[str], stack: ExitStack):
        self.schema, self.waiting, self.rows = schema, [schema.empty_table()], 0
        self.stored = pa.schema([column for column in schema if column.name not in csv_only])
        parquet, text = (stack.enter_context(atomic_path(folder / f"{name}.{kind}")) for kind in ("parquet", "csv"))
        self.csv = stack.enter_context(text.open("wb"))
        self.parquet = stack.enter_context(
            pq.ParquetWriter(parquet, self.stored, compression="zstd", write_page_checksum=True)
        )

    def add(self, rows: pd.DataFrame) -> None:
        """Write a part of the table, or let it wait for more."""
        self.waiting.append(pa.Table.from_pandas(rows[self.schema.names], self.schema, preserve_index=False))
        if sum(map(len, self.waiting)) >= ROWS_OF_GROUP:
            self.write()

    def write(self) -> None:
        """Write what waits; a file without any row has the columns."""
        table = pa.concat_tables(self.waiting).combine_chunks()  # pyarrow 26 writes wrong CSV where a chunk is empty
        if len(table) or not self.rows:
            write_rows(table, self.csv, header=not self.rows)
            self.parquet.write_table(table.select(self.stored.names))
        self.waiting, self.rows = [self.schema.empty_table()], self.rows + len(table)


def write_tables(parts: Parts, schemas: Mapping[str, pa.Schema], folder: Path, csv_only: Collection[str] = ()) -> None:
    """Write each table, also one without rows, as `NAME.csv` and, without the columns `csv_only`, `NAME.parquet`."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = {name: TableFiles(name, folder, schema, csv_only, stack) for name, schema in schemas.items()}
        for name, rows in parts:
            if len(rows):
                files[name].add(rows)
        for name, of_table in files.items():
            of_table.write()
            print(f"{name}: {of_table.rows} rows")


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV; nulls are empty cells."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        write_rows(pa.Table.from_pandas(frame, preserve_index=False), file)


def write_rows(table: pa.Table, file: IO[bytes], header: bool = True) -> None:
    """Write rows as CSV: each text in quotes, each null as an empty cell, and no text that is a formula."""
    for number, name in enumerate(table.column_names):
        column = table.column(number)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            coded = column.dictionary_encode().unify_dictionaries().combine_chunks()
            texts = pa.array(map(_no_formula, coded.dictionary.to_pylist()), pa.large_string())
            table = table.set_column(number, name, texts.take(coded.indices))
    names = [_no_formula(name) for name in table.column_names]
    pa_csv.write_csv(table.rename_columns(names), file, pa_csv.WriteOptions(include_header=header))


def _no_formula(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) else text


def write_table_page(table: pd.DataFrame, heading: str, sentence: str, path: Path, **layout: Any) -> None:
    """Write a table as a page of the report, with a sentence; `layout` has arguments of `DataFrame.to_html`."""
    shown = table.to_html(index=False, border=0, justify="left", **layout)
    with atomic_path(path) as temporary:
        temporary.write_text(page(heading, sentence, Markup(shown)), encoding="utf-8")
