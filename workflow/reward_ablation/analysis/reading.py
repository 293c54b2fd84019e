"""Readers of Parquet and CSV files that another stage wrote, with errors in one line that say what to do.

Tables, figures and the report read their inputs here: pandas neither checks the pages of a file nor says that the
workflow makes a missing file again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reward_ablation.system.errors import StudyError


def read_parquet(path: Path, columns: list[str] | None = None, coded: Collection[str] = ()) -> pd.DataFrame:
    """Read a Parquet file, or some of its columns. Those in `coded`, of texts that repeat, become categories.

    A StudyError is raised where the file is missing, was truncated or changed (checksums show it), or lacks a column.
    """
    return read_columns(path, columns, (), coded).to_pandas()


def read_parquets(
    paths: Collection[Path], columns: list[str], maybe_absent: Collection[str] = (), coded: Collection[str] = ()
) -> tuple[pd.DataFrame, list[int]]:
    """Rows of several files, one after the other, and the number of rows of each; else as `read_parquet`.

    Columns in `maybe_absent`, which files of earlier versions lack, are null there. None of them may be in `coded`.
    """
    tables = [read_columns(path, columns, maybe_absent, coded) for path in paths]
    table = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries().to_pandas()
    return table.reindex(columns=columns), [len(of_file) for of_file in tables]


def read_columns(
    path: Path, columns: list[str] | None, maybe_absent: Collection[str] = (), coded: Collection[str] = ()
) -> pa.Table:
    """As `read_parquet`, but as a table of Arrow, where the columns in `coded` are dictionaries."""
    needed = [name for name in columns or () if name not in maybe_absent]
    with damage_reported(path), _opened(path, needed, coded) as file:
        present = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        table = file.read(columns=present, use_threads=False)  # a job of tables has one core
        return table if present is None else table.select(present)  # in this order; `read` has the file's


def read_rows(path: Path, columns: list[str], where: pc.Expression, coded: Collection[str] = ()) -> pd.DataFrame:
    """Rows for which `where`, of `columns` alone, holds; reads one row group at a time, else as `read_parquet`."""
    with damage_reported(path), _opened(path, columns, coded) as file:
        groups = range(file.num_row_groups)
        parts = [file.read_row_group(group, columns, use_threads=False).filter(where) for group in groups]
        return pa.concat_tables(parts).unify_dictionaries().to_pandas()[columns]


def _opened(path: Path, columns: Collection[str] = (), coded: Collection[str] = ()) -> pq.ParquetFile:
    """Open a Parquet file; a ValueError names a column of `columns` or `coded` that it lacks."""
    source = pa.OSFile(str(path))  # opens faster than a path does; `pre_buffer` would help on remote files alone
    try:
        file = pq.ParquetFile(source, read_dictionary=[*coded], page_checksum_verification=True, pre_buffer=False)
    except KeyError as error:
        raise ValueError(f"no column {error.args[0].decode()}") from None  # pyarrow gives the name in bytes
    if missing := [name for name in columns if name not in file.schema_arrow.names]:
        raise ValueError(f"no column {missing[0]}")
    return file


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn errors in reading a Parquet file, but for PermissionError, into a StudyError that says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise missing_file(path) from None
    except PermissionError:  # to delete the file would not help
        raise
    except (OSError, ValueError) as error:  # Arrow's own errors are these
        raise damaged_file(path, str(error)) from error


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of the study: a Parquet file, or the CSV file of `runs` or `cost`; errors as in `read_parquet`."""
    if path.suffix != ".csv":
        return read_parquet(path)
    try:
        return pd.read_csv(path, keep_default_na=False, na_values=[""])  # else an arm called None is a missing value
    except FileNotFoundError:
        raise missing_file(path) from None
    except ValueError as error:  # pandas' own errors are these
        raise damaged_file(path, str(error)) from error


def column_names(path: Path) -> list[str]:
    """Names of the columns of a table of the study, without its rows; errors as in `read_table`."""
    if path.suffix == ".csv":
        return list(read_table(path).columns)
    with damage_reported(path), _opened(path) as file:
        return list(file.schema_arrow.names)


def missing_file(path: Path) -> StudyError:
    """The error for a missing file that the workflow makes."""
    return StudyError(f"{path}: there is no such file; run the workflow again, it makes what is missing")


def damaged_file(path: Path, reason: str) -> StudyError:
    """The error for a file whose content is not what was written; of `reason` the first line is told."""
    reason = reason.partition("\n")[0].rstrip(".")
    return StudyError(
        f"{path}: truncated or changed since it was written ({reason}); delete it and run the workflow again"
    )
