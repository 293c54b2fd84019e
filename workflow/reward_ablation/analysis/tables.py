"""The tables of a study: their columns, and how they are written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.schemas import evaluation, gradients, runs, training
from reward_ablation.analysis.schemas.runs import COST
from reward_ablation.system.files import atomic_path, write_parquet

#: Columns of each table. Numbers may be null: a component that cannot score, a gradient without direction.
SCHEMAS: dict[str, pa.Schema] = {**runs.SCHEMAS, **evaluation.SCHEMAS, **training.SCHEMAS, **gradients.SCHEMAS}


def joined(name: str, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all parts under the columns of table `name`; an empty table where there is no row."""
    columns = SCHEMAS[name].names
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[columns] if filled else pd.DataFrame(columns=columns)


def write_table(name: str, frame: pd.DataFrame, folder: str | Path) -> None:
    """Write a table as `name.parquet` and `name.csv`; nulls are empty cells in CSV."""
    table = pa.Table.from_pandas(frame, schema=SCHEMAS[name], preserve_index=False)
    write_parquet(
        table.drop_columns([column for column in COST if column in table.column_names]),
        Path(folder) / f"{name}.parquet",
    )
    with atomic_path(Path(folder) / f"{name}.csv") as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")


def read_table(name: str, folder: str | Path) -> pd.DataFrame:
    """Read a table that `write_table` wrote, without what runs cost."""
    return read_parquet(Path(folder) / f"{name}.parquet")
