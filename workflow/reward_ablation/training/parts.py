"""Tables that grow while a run trains: small Parquet files, joined at the end.

A part is written in one move, so a killed run leaves whole parts only; on resume the parts of
steps that will be trained again are dropped.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.study.files import atomic_path, write_parquet


def write_part(table: pa.Table, folder: Path, name: str, step: int, batch: int = 0, process: int = 0) -> None:
    """Write rows to `{name}-{step}-{batch}-{process}.parquet`; a step may generate several batches."""
    write_parquet(table, folder / f"{name}-{step:08d}-{batch:08d}-{process:04d}.parquet")


def drop_parts_after(folder: Path, step: int) -> None:
    """Remove all parts of later steps."""
    for path in folder.glob("*.parquet"):
        if int(path.stem.split("-")[1]) > step:
            path.unlink()


def join_parts(folder: Path, name: str, schema: pa.Schema, output: Path) -> None:
    """Join the parts in order of step, batch and process; without any, the table has its columns and no row."""
    parts = [pq.read_table(path, schema=schema) for path in sorted(folder.glob(f"{name}-*.parquet"))]
    write_parquet(pa.concat_tables([schema.empty_table(), *parts]).combine_chunks(), output)


def join_large_parts(folder: Path, name: str, schema: pa.Schema, output: Path) -> None:
    """As `join_parts`, with one part in memory at a time, each a row group: a step is read without the others."""
    with atomic_path(output) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for path in sorted(folder.glob(f"{name}-*.parquet")):
            writer.write_table(pq.read_table(path, schema=schema))
