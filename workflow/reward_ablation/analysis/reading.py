"""Reading Parquet files that another stage has written: whole, or one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.study.errors import StudyError


def read_parquet(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a Parquet file, or some of its columns: texts are most of the bytes of rollouts and answers.

    Raises
    ------
    StudyError
        It is missing, or truncated or changed, as its footer or the checksums of its pages tell.
    """
    try:
        return pq.read_table(path, columns=columns, page_checksum_verification=True).to_pandas()
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file; run the workflow again, it makes what is missing") from None
    except PermissionError:
        raise
    except (OSError, ValueError) as error:  # Arrow's own errors are these
        reason = str(error).splitlines()[0].rstrip(".")
        raise StudyError(
            f"{path}: truncated or changed since it was written ({reason}); delete it and run the workflow again"
        ) from error
