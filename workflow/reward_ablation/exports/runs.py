"""Reading of a finished run, for all layouts of exports: the record, and the rollouts step by step.

The modules of both layouts call it, so that both refuse a run that is not finished or was changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from reward_ablation.analysis.runs import RECORD, rerun_of
from reward_ablation.system.digests import check_files, read_object

ROLLOUTS = "rollouts.parquet"
#: Number of rows that are read at a time.
ROWS = 1024


def read_finished(run: Path) -> dict[str, Any]:
    """Read the record of a finished run; refused if it is not finished, or its rollouts have changed since."""
    record = read_object(run / RECORD, rerun_of(run))
    check_listed(run, record, [ROLLOUTS])
    return record


def check_listed(run: Path, record: dict[str, Any], names: list[str]) -> None:
    """Refuse a run whose files are missing or not those that its record lists."""
    check_files(run, record.get("files", {}), names, RECORD, rerun_of(run))


def rollouts_by_step(run: Path, columns: list[str]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Each step, from 1, with its rollouts in the order of sampling: these columns and `step`."""
    with pq.ParquetFile(run / ROLLOUTS, page_checksum_verification=True) as file:
        batches = file.iter_batches(batch_size=ROWS, columns=["step", *columns])
        rows = (row for batch in batches for row in batch.to_pylist())
        for step, of_step in groupby(rows, key=itemgetter("step")):
            yield step, list(of_step)
