"""Reading files that another stage has written: whole, or one line that says what to do."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.system.errors import StudyError


def read_parquet(path: Path, columns: list[str] | None = None, later: Collection[str] = ()) -> pd.DataFrame:
    """Read a Parquet file, or some of its columns: texts are most of the bytes of rollouts and answers.

    Parameters
    ----------
    path : Path
    columns : list of str, optional
        Default: all.
    later : collection of str
        Those of the columns that files of earlier versions do not have; their values are null.

    Raises
    ------
    StudyError
        It is missing, or truncated or changed, as its footer or the checksums of its pages tell.
    """
    try:
        missing = set(later).difference(pq.read_schema(path).names) if later else set()
        there = None if columns is None else [name for name in columns if name not in missing]
        table = pq.read_table(path, columns=there, page_checksum_verification=True).to_pandas()
        return table.reindex(columns=columns) if missing else table
    except FileNotFoundError:
        raise missing_file(path) from None
    except PermissionError:
        raise
    except (OSError, ValueError) as error:  # Arrow's own errors are these
        raise damaged_file(path, str(error).splitlines()[0].rstrip(".")) from error


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of the study: a Parquet file, or the CSV file of a table of times.

    Raises
    ------
    StudyError
        The file is missing or damaged.
    """
    if path.suffix != ".csv":
        return read_parquet(path)
    try:
        return pd.read_csv(path)
    except FileNotFoundError:
        raise missing_file(path) from None
    except ValueError as error:  # pandas' own errors are these
        raise damaged_file(path, str(error)) from error


def missing_file(path: Path) -> StudyError:
    """The error about a file that the workflow makes and that is not there."""
    return StudyError(f"{path}: there is no such file; run the workflow again, it makes what is missing")


def damaged_file(path: Path, reason: str) -> StudyError:
    """The error about a file whose content is not what was written."""
    return StudyError(
        f"{path}: truncated or changed since it was written ({reason}); delete it and run the workflow again"
    )
