"""Put together and write the tables of a study; commands of the rules that write them."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from reward_ablation.analysis.csv_text import write_rows
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.system.errors import storage_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page

#: Types of the columns of tables.
TEXT, COUNT, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

#: Tables by name; and pairs of a table's name and some of its rows, in the order of the rows.
Tables = dict[str, pd.DataFrame]
Parts = Iterable[tuple[str, pd.DataFrame]]

#: Rows of a Parquet file that are compressed together: pyarrow's default.
ROWS_OF_GROUP = 1 << 20

#: Columns of an estimate with its interval.
ESTIMATE = ((NUMBER, "estimate low high"), (COUNT, "seeds questions"))


def columns(*groups: tuple[pa.DataType, str]) -> pa.Schema:
    """Columns of a table in their order, as groups of one type. Numbers may be null, as some cannot be known.

    >>> columns((TEXT, "arm"), (COUNT, "seed step")).names
    ['arm', 'seed', 'step']
    """
    return pa.schema([(name, kind) for kind, names in groups for name in names.split()])


def joined(schema: pa.Schema, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all parts under the columns of a table; an empty table where there is no row."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[schema.names] if filled else pd.DataFrame(columns=schema.names)


def all_joined(schemas: Mapping[str, pa.Schema], parts: Mapping[str, list[pd.DataFrame]]) -> Tables:
    """Tables by name, each from its parts."""
    return {name: joined(schemas[name], of_table) for name, of_table in parts.items()}


def gathered(schemas: Mapping[str, pa.Schema], parts: Parts) -> Tables:
    """All tables of a rule in memory, by name."""
    of_tables: dict[str, list[pd.DataFrame]] = {name: [] for name in schemas}
    for name, rows in parts:
        of_tables[name].append(rows)
    return all_joined(schemas, of_tables)


def signal_rows(signals: pd.DataFrame) -> pd.DataFrame:
    """Signals of a run as rows (step, quantity, component, value); component is null for a signal of all components.

    `signals` has a row per step and columns (quantity, component), where component is "" for all components.
    """
    rows, width = signals.shape
    quantities, components = (np.array(level, dtype=object) for level in zip(*signals.columns, strict=True))
    return pd.DataFrame(
        {
            "step": np.repeat(signals.index.to_numpy(), width),
            "quantity": np.tile(quantities, rows),
            "component": np.tile([name or None for name in components], rows),
            "value": signals.to_numpy().ravel(),
        }
    )


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV; nulls are empty cells."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        write_rows(pa.Table.from_pandas(frame, preserve_index=False), file, header=True)


class TableFiles:
    """The two files of a table, `NAME.parquet` and `NAME.csv`, while parts of the table are added.

    No more than `ROWS_OF_GROUP` rows and one part wait in memory. The Parquet file does not have the columns in
    `csv_only`. `stack` gives the files their names when it closes, after all parts are written.
    """

    def __init__(self, name: str, folder: Path, schema: pa.Schema, csv_only: Collection[str], stack: ExitStack):
        self.name, self.schema = name, schema
        self.stored = pa.schema([column for column in schema if column.name not in csv_only])
        parquet, text = (stack.enter_context(atomic_path(folder / f"{name}.{kind}")) for kind in ("parquet", "csv"))
        self.csv = stack.enter_context(text.open("wb"))
        write_rows(schema.empty_table(), self.csv, header=True)
        self.parquet = stack.enter_context(
            pq.ParquetWriter(parquet, self.stored, compression="zstd", write_page_checksum=True)
        )
        self.waiting: list[pd.DataFrame] = []
        self.rows = self.rows_waiting = 0

    def add(self, rows: pd.DataFrame) -> None:
        """Write a part of the table, or let it wait for more."""
        self.waiting.append(rows)
        self.rows_waiting += len(rows)
        if self.rows_waiting >= ROWS_OF_GROUP:
            table = joined(self.schema, self.waiting)
            self.rows_waiting = len(table) % ROWS_OF_GROUP
            for first in range(0, len(table) - self.rows_waiting, ROWS_OF_GROUP):
                self._write(table.iloc[first : first + ROWS_OF_GROUP])
            self.waiting = [table.iloc[len(table) - self.rows_waiting :]]

    def end(self) -> None:
        """Write the rows that wait, and print the number of all rows."""
        rest = joined(self.schema, self.waiting)
        if len(rest) or not self.rows:
            self._write(rest)
        print(f"{self.name}: {self.rows} rows")

    def _write(self, rows: pd.DataFrame) -> None:
        table = pa.Table.from_pandas(rows, schema=self.schema, preserve_index=False)
        self.parquet.write_table(table.select(self.stored.names).combine_chunks())
        write_rows(table, self.csv, header=False)
        self.rows += len(rows)


def write_tables(
    parts: Tables | Parts, schemas: Mapping[str, pa.Schema], folder: Path, csv_only: Collection[str] = ()
) -> None:
    """Write each table as `NAME.parquet` and `NAME.csv`.

    `parts` are tables by name, or pairs of a table's name and some of its rows, which are written as they come. The
    Parquet files do not have the columns in `csv_only`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        names = parts if isinstance(parts, Mapping) else schemas
        files = {name: TableFiles(name, folder, schemas[name], csv_only, stack) for name in names}
        for name, rows in parts.items() if isinstance(parts, Mapping) else parts:
            files[name].add(rows)
        for of_table in files.values():
            of_table.end()


def write_table_page(table: pd.DataFrame, heading: str, sentence: str, path: Path, **layout: Any) -> None:
    """Write a table as a page of the report.

    `sentence` has no full stop. `layout` has further arguments of `DataFrame.to_html`.
    """
    shown = table.to_html(index=False, border=0, justify="left", **layout)
    with atomic_path(path) as temporary:
        temporary.write_text(page(heading, sentence, Markup(shown)), encoding="utf-8")


def table_command(
    module: str, *options: tuple[str, dict[str, Any]]
) -> Callable[[Callable[[StudyFile, argparse.Namespace], None]], Callable[..., None]]:
    """Make the command of a rule of tables from the function that writes the tables.

    The function gets the study and the command's options: `study`, the path of study.json; `output`, the folder of the
    study's tables; and the rule's own `options`, which are as `ArgumentParser.add_argument` takes them. Its docstring
    is the command's description. `module` is the package that the rule runs, below the library.
    """

    def command(write: Callable[[StudyFile, argparse.Namespace], None]) -> Callable[..., None]:
        def main(arguments: Sequence[str] | None = None) -> None:
            program = f"python -m reward_ablation.{module}"
            parser = argparse.ArgumentParser(prog=program, description=write.__doc__)
            parser.add_argument("--study", type=Path, required=True, help="study.json, in the study's results folder")
            parser.add_argument("--output", type=Path, required=True, help="folder of the study's tables")
            for name, settings in options:
                parser.add_argument(name, **settings)
            parsed = parser.parse_args(arguments)
            gc.disable()  # a large study is millions of objects that last; to look through them again takes seconds
            study = read_study(parsed.study)
            with storage_errors(parsed.output):
                write(study, parsed)
            gc.enable()

        return main

    return command
