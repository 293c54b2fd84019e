"""Prepared sets of problems as later stages use them: their rows, the names of their columns, a check of their bytes.

Training, the supervised start, the rule `score` and `plan --adopt` use it. Further columns are those that not every set
has. `problems`, which prepares the sets, does not import this module: a change here prepares no set again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reward_ablation.config.sections.data import OF_FILES
from reward_ablation.system.digests import check_files, read_object
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    import pandas as pd

#: Columns that every prepared set has.
OF_ALL = (*OF_FILES, "source", "split")


def read_prepared(path: Path) -> pd.DataFrame:
    """A prepared set, one row a problem: str, int, float, lists and dicts by column; a missing value is None."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    from reward_ablation.rewards.columns import decoded, json_columns  # here: its package imports the grader

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StudyError(f"{path}: not a prepared set of problems ({str(error).splitlines()[0]})") from error
    if missing := [name for name in OF_ALL if name not in table.column_names]:
        raise StudyError(f"{path}: not a prepared set of problems: no column {missing[0]}")
    columns = {name: table[name].to_pylist() for name in table.column_names}
    for name in json_columns(table.schema):
        columns[name] = decoded(columns[name])
    # As objects, because pandas would turn whole numbers into floats if one is missing.
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def further_columns_of(path: Path) -> tuple[str, ...]:
    """Columns of a prepared set besides those that every set has."""
    import pyarrow.parquet as pq

    return tuple(name for name in pq.read_schema(path).names if name not in OF_ALL)


def verify_problems(path: Path) -> None:
    """Refuse a prepared set that is truncated or changed. A set without a record is not the workflow's, and passes."""
    record = path.with_suffix(".json")
    if record.is_file():
        remedy = f"delete {path} and run the workflow again, which prepares it again"
        recorded = {path.name: read_object(record, remedy).get("sha256", "")}
        check_files(path.parent, recorded, [path.name], record.name, remedy)
