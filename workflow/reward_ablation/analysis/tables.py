"""How the tables of a study are put together and written."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa

from reward_ablation.system.files import atomic_path, write_parquet


def joined(schema: pa.Schema, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all parts under the columns of a table; an empty table where there is no row."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[schema.names] if filled else pd.DataFrame(columns=schema.names)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV; nulls are empty cells."""
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")


def write_tables(
    tables: Mapping[str, pd.DataFrame], schemas: Mapping[str, pa.Schema], folder: Path, csv_only: Collection[str] = ()
) -> None:
    """Write each table as `NAME.parquet` and `NAME.csv`.

    Parameters
    ----------
    tables : mapping of str to DataFrame
    schemas : mapping of str to Schema
        Columns of each table.
    folder : Path
    csv_only : collection of str
        Columns that the Parquet files do not have.
    """
    for name, frame in tables.items():
        table = pa.Table.from_pandas(frame, schema=schemas[name], preserve_index=False)
        left_out = [column for column in csv_only if column in table.column_names]
        write_parquet(table.drop_columns(left_out), folder / f"{name}.parquet")
        write_csv(frame, folder / f"{name}.csv")
        print(f"{name}: {len(frame)} rows")


def table_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """The command line of a rule of tables."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--study", type=Path, required=True, help="study.json, in the study's results folder")
    parser.add_argument("--output", type=Path, required=True, help="folder of the study's tables")
    return parser
