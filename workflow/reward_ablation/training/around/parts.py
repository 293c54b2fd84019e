"""Outputs that grow while a run trains: tables, whole gradients, and kept models, those of every n-th step.

The trainer writes them through `live_parts`, `checkpoints` seals and drops them, and `finish` joins the parts of a
table, small Parquet files. When a run resumes from a checkpoint, the parts of later steps are made again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reward_ablation.study.run_folder import KEPT_MODEL, step_of_kept_model
from reward_ablation.system.files import atomic_path, write_parquet

#: Steps whose rows are written together, in a part (fewer before a checkpoint) and in a row group of a large table.
STEPS_PER_PART = 16
#: Start of the names of files with whole gradients, which are not tables.
WHOLE_GRADIENTS = "gradients_step_"


class PartWriter:
    """The trainer's `Sink`: keeps the tables of some steps in memory and writes them together.

    Whole gradients are written while the next step is trained, one step's at a time to bound the memory.
    """

    def __init__(self, folder: Path, process: int):
        self.folder = folder
        self.process = process
        self._tables: dict[str, list[pa.Table]] = {}
        self._steps: set[int] = set()
        self._thread = ThreadPoolExecutor(1)
        self._arrays: Future | None = None

    def add(self, name: str, table: pa.Table, step: int) -> None:
        """Add a step's rows to a table."""
        self._tables.setdefault(name, []).append(table)
        self._steps.add(step)

    def add_arrays(self, step: int, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        """Start to write a step's whole gradients, as `gradients_step_N.npz`, after an earlier step's are written."""
        self.wait()
        self._arrays = self._thread.submit(_save, self.folder / f"{WHOLE_GRADIENTS}{step}.npz", arrays())

    def wait(self) -> None:
        """Wait for whole gradients that are being written. Raises the exception with which the writing failed."""
        if self._arrays is not None:
            self._arrays.result()
            self._arrays = None

    def end_step(self) -> None:
        """Write the tables if they have the rows of enough steps."""
        if len(self._steps) >= STEPS_PER_PART:
            self.flush()

    def flush(self) -> None:
        """Write all tables in memory, as `{table}-{last step}-{process}.parquet`."""
        # Steps may differ in columns: only some log the column `extra`.
        for name, tables in self._tables.items():
            path = self.folder / f"{name}-{max(self._steps):08d}-{self.process:04d}.parquet"
            write_parquet(pa.concat_tables(tables, promote_options="default"), path, durable=False)
        self._tables, self._steps = {}, set()


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays by name; a reader never sees half a file."""
    # numpy gets an open file, because it would add an ending to a path.
    with atomic_path(path, durable=False) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def step_of_part(path: Path) -> int:
    """The last step whose rows a part would contain; a table may have none of this step."""
    if path.name.startswith(WHOLE_GRADIENTS):
        return int(path.stem.removeprefix(WHOLE_GRADIENTS))
    return int(path.stem.split("-")[1])


def parts_until(folder: Path, step: int) -> list[Path]:
    """Parts of steps up to `step`, by name, and files of kept models, without files that are still being written."""
    kept = [model for model in kept_models(folder) if step_of_kept_model(model.name) <= step]
    files = [path for model in kept for path in sorted(model.rglob("*")) if path.is_file()]
    return [*(path for path in _parts(folder) if step_of_part(path) <= step), *files]


def drop_parts_after(folder: Path, step: int) -> None:
    """Remove all parts and kept models of later steps, and files that were being written when the process ended."""
    for model in kept_models(folder):
        if step_of_kept_model(model.name) > step:
            shutil.rmtree(model)
    for path in _parts(folder):
        if step_of_part(path) > step:
            path.unlink()
    for path in folder.glob(".*"):
        path.unlink()


def _by_process(part: Path) -> tuple[str, int]:
    """Process and last step of a part, from its name."""
    return part.stem.rpartition("-")[2], step_of_part(part)


def kept_models(folder: Path) -> list[Path]:
    """Folders of the kept models, in order of their steps."""
    found = [path for path in folder.glob(f"{KEPT_MODEL}*") if step_of_kept_model(path.name)]
    return sorted(found, key=lambda path: step_of_kept_model(path.name))


def _parts(folder: Path) -> list[Path]:
    return sorted(path for ending in ("parquet", "npz") for path in folder.glob(f"[!.]*.{ending}"))


def join_parts(folder: Path, name: str, schema: pa.Schema, output: Path, in_some: pa.Field | None = None) -> None:
    """Join a table's parts by step and process: no rows without parts, and the column `in_some` if any part has it."""
    paths = sorted(folder.glob(f"{name}-*.parquet"), key=_by_process)
    if in_some and any(in_some.name in pq.read_schema(path).names for path in paths):
        schema = schema.append(in_some)
    parts = [pq.read_table(path, schema=schema) for path in paths]
    table = pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
    order = np.argsort(table["step"].to_numpy(), kind="stable")  # within a step, the order of processes stays
    write_parquet(table.take(order), output)


def join_large_parts(folder: Path, name: str, schema: pa.Schema, output: Path) -> None:
    """Join a table's parts with about two in memory at a time, in row groups of `STEPS_PER_PART` steps."""
    with atomic_path(output) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for path in sorted(folder.glob(f"{name}-*.parquet")):
            part = pq.read_table(path, schema=schema)
            for step in part["step"].unique():
                waiting.append(part.filter(pc.equal(part["step"], step)))
                if len(waiting) == STEPS_PER_PART:
                    writer.write_table(pa.concat_tables(waiting).combine_chunks())
                    waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting).combine_chunks())
