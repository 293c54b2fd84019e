"""Reading files that another stage has written: whole, or one line that says what to do."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.system.errors import StudyError


def read_parquet(path: Path, columns: list[str] | None = None, later: Collection[str] = ()) -> pd.DataFrame:
    """Read a Parquet file, or some of its columns.

    Parameters
    ----------
    later : collection of str
        Columns that files of earlier versions do not have; their values are null there.

    Raises
    ------
    StudyError
        The file is missing, truncated or changed, by its footer and the checksums of its pages.
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
    """Read a table of the study: a Parquet file, or the CSV file of a table of times; errors as in `read_parquet`."""
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
