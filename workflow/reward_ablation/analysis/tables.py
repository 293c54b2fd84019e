"""How the tables of a study are put together and written, and the commands of the rules that write them."""

from __future__ import annotations

import argparse
import html
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.system.errors import storage_errors
from reward_ablation.system.files import atomic_path, write_parquet
from reward_ablation.system.html_page import PAGE

#: Types of the columns of tables.
TEXT, COUNT, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

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


def all_joined(schemas: Mapping[str, pa.Schema], parts: Mapping[str, list[pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Tables by name, each from its parts."""
    return {name: joined(schemas[name], of_table) for name, of_table in parts.items()}


def signal_rows(signals: pd.DataFrame) -> pd.DataFrame:
    """Signals of a run as rows (step, quantity, component, value); component is null for a signal of all components.

    Parameters
    ----------
    signals : DataFrame
        A row per step; columns (quantity, component), with component "" for all components.
    """
    labels = signals.columns.to_frame(index=False)
    rows, width = signals.shape
    return pd.DataFrame(
        {
            "step": np.repeat(signals.index.to_numpy(), width),
            "quantity": np.tile(labels["quantity"].to_numpy(), rows),
            "component": np.tile(labels["component"].where(labels["component"] != "", None).to_numpy(), rows),
            "value": signals.to_numpy().ravel(),
        }
    )


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
    schemas : mapping of str to Schema
        Columns of each table.
    csv_only : collection of str
        Columns that the Parquet files do not have.
    """
    for name, frame in tables.items():
        table = pa.Table.from_pandas(frame, schema=schemas[name], preserve_index=False)
        left_out = [column for column in csv_only if column in table.column_names]
        write_parquet(table.drop_columns(left_out), folder / f"{name}.parquet")
        write_csv(frame, folder / f"{name}.csv")
        print(f"{name}: {len(frame)} rows")


def write_table_page(table: pd.DataFrame, heading: str, sentence: str, path: Path, **layout: Any) -> None:
    """Write a table as a page of the report.

    Parameters
    ----------
    heading : str
        Plain text.
    sentence : str
        HTML, without its full stop.
    layout
        For `DataFrame.to_html`.
    """
    shown = table.to_html(index=False, border=0, justify="left", **layout)
    with atomic_path(path) as temporary:
        temporary.write_text(PAGE.format(heading=html.escape(heading), sentence=sentence, table=shown))


def table_command(
    module: str, *options: tuple[str, dict[str, Any]]
) -> Callable[[Callable[[StudyFile, argparse.Namespace], None]], Callable[..., None]]:
    """Make the command of a rule of tables from the function that writes the tables.

    The function gets the study and the command's options: `study`, the path of study.json; `output`, the folder of the
    study's tables; and the rule's own options. Its docstring is the command's description.

    Parameters
    ----------
    module : str
        Package that the rule runs, below the library.
    options : (str, dict)
        The rule's own options, as `ArgumentParser.add_argument` takes them.
    """

    def command(write: Callable[[StudyFile, argparse.Namespace], None]) -> Callable[..., None]:
        def main(arguments: Sequence[str] | None = None) -> None:
            program = f"python -m reward_ablation.{module}"
            parser = argparse.ArgumentParser(prog=program, description=write.__doc__)
            parser.add_argument("--study", type=Path, required=True, help="study.json, in the study's results folder")
            parser.add_argument("--output", type=Path, required=True, help="folder of the study's tables")
            for name, settings in options:
                parser.add_argument(name, **settings)
            given = parser.parse_args(arguments)
            study = read_study(given.study)
            with storage_errors(given.output):
                write(study, given)

        return main

    return command
