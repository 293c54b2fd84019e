"""Rollouts of an unfinished run: `rollouts.jsonl` in its work folder, with a row a line, read while the run trains.

Training appends to the file for readers alone (`watch`), after each step's backward pass. TRL's own trainer with
`reward_ablation.trl` appends rows once they are generated, and `save_rollouts` makes its result of them. The file goes
with the work folder when the run is finished.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.study.run_folder import WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path

#: Name of the file in the work folder of an unfinished run; and of the table of a finished run.
FILE, TABLE = "rollouts.jsonl", "rollouts.parquet"
#: Rows in memory at a time, and in a row group, where the file becomes a table. A free choice.
ROWS = 4096


def append_rollouts(work: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows, with null for what is not finite. Opened at each step: other machines see a file that was closed."""
    lines = [json.dumps({name: _known(value) for name, value in row.items()}, allow_nan=False) for row in rows]
    with (work / FILE).open("a", encoding="ascii") as file:  # JSON escapes other characters, and line breaks
        file.write("".join(f"{line}\n" for line in lines))


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def drop_rollouts_after(work: Path, step: int) -> None:
    """Cut the file before the first row of a later step, or the first line that is not whole."""
    path = work / FILE
    if not path.exists():
        return
    kept = 0
    with path.open("r+b") as file:
        for line in file:
            row = row_of(line)
            if row is None or row["step"] > step:
                break
            kept += len(line)
        file.truncate(kept)


def read_live_rollouts(run: Path, most_bytes: int | None = None) -> Iterator[dict[str, Any]]:
    """Rollouts of an unfinished run, in order; with `most_bytes` those that begin in so many bytes at the end."""
    try:
        file = (run / WORK / FILE).open("rb")
    except FileNotFoundError:
        return
    with file:
        if most_bytes is not None and (before := file.seek(0, 2) - most_bytes) > 0:
            file.seek(before - 1)
            file.readline()  # the rest of a row that began earlier, or the end of the line before
        else:
            file.seek(0)
        for line in file:
            if row := row_of(line):
                yield row


def row_of(line: bytes) -> dict[str, Any] | None:
    """The row of a line; None if the line is not whole, or is no row."""
    try:
        row = json.loads(line) if line.endswith(b"}\n") else None
    except ValueError:
        return None
    return row if isinstance(row, dict) and type(row.get("step")) is int else None


def save_rollouts(run: Path, schema: pa.Schema) -> None:
    """Write all rows so far of TRL's own trainer as `rollouts.parquet`, in one move; refuse if the folder is gone."""
    if not (run / WORK).is_dir():
        raise StudyError(f"{run / WORK}: is gone, with the rows so far; go on from a checkpoint, and leave the folder")
    rows = read_live_rollouts(run)
    with atomic_path(run / TABLE) as path, pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(rows, ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def continue_rollouts(run: Path, step: int) -> None:
    """Make the file ready for TRL's step after `step`. After the end of a run, only the table has its rows."""
    work = run / WORK
    if not work.exists():
        begun = work.with_name(f"{work.name}.tmp")  # in one move: a part of the rows would be taken for all
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        if (run / TABLE).exists():
            for batch in pq.ParquetFile(run / TABLE).iter_batches(ROWS):
                append_rollouts(begun, batch.to_pylist())
        begun.rename(work)
    drop_rollouts_after(work, step)
