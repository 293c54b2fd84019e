"""Rollouts of one run, from the file of a finished run or from the growing file of a run in training.

`study_data` calls `look` for each run, every few seconds while a page is open.

Everything here only reads. A run may write, replace or remove each file at any moment. So a file that cannot be read,
and a line that is not whole yet, are left for the next look.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.study.live_rollouts import FILE as LIVE
from reward_ablation.study.live_rollouts import row_of
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD, WORK

#: Columns that the page shows beside numbers. The file of a finished run has no prompt and no gold.
TEXTS = ("problem_id", "completion", "truncated", "prompt", "gold")
#: Bytes that a look reads of a growing file, so that no answer waits for gigabytes.
AT_ONCE = 16 << 20
#: Bytes before the end of what was read. They tell a file that was cut and has grown again from the same file.
REMEMBERED = 200
#: What reading a file may raise while its run writes.
UNREADABLE = (OSError, ValueError, KeyError, pa.ArrowException)


class RunRollouts:
    """A run's means by step, as of the last look, and rows of a step, whose places in a growing file it remembers."""

    def __init__(self, folder: Path, columns: list[str]):
        self.live, self.result = folder / WORK / LIVE, folder / "rollouts.parquet"
        self.records = (folder / RECORD, folder / HIDDEN_RECORD)
        self.columns = columns  # of numbers, in the order of the means
        self._forget(None)

    def _forget(self, source: Any) -> None:
        self.source = source  # LIVE, or time and size of the finished file; None before the first look
        self.means: dict[int, list[float]] = {}  # NaN where no row of the step has a number
        self.count = 0  # of rows
        self.end, self.before_end = 0, b""
        self.places: dict[int, tuple[int, int]] = {}  # first byte of each step, and the byte after its last one
        self.sums: dict[int, np.ndarray] = {}  # sums and counts of each column by step

    def look(self) -> tuple[bool, list[int], bool]:
        """Look for what is new: whether all earlier means are void, steps with new means, whether more is unread."""
        try:
            return self._look_at_live() if self.live.is_file() else self._look_at_result()
        except UNREADABLE:
            return False, [], False

    def _look_at_result(self) -> tuple[bool, list[int], bool]:
        if not any(record.is_file() for record in self.records):
            return False, [], False  # the file is of an earlier result, which is being replaced
        status = self.result.stat()
        source, before = (status.st_mtime_ns, status.st_size), self.source
        if source == before:
            return False, [], False
        present = [name for name in self.columns if name in pq.read_schema(self.result).names]
        rows = pq.read_table(self.result, columns=["step", *present]).to_pandas()
        means = rows.groupby("step").mean().reindex(columns=self.columns)
        self._forget(source)
        self.count = len(rows)
        self.means = dict(zip(means.index.tolist(), means.to_numpy(dtype=float).tolist(), strict=True))
        return before is not None, [*self.means], False

    def _look_at_live(self) -> tuple[bool, list[int], bool]:
        with self.live.open("rb") as file:
            file.seek(max(0, self.end - REMEMBERED))
            same = self.source == LIVE and file.read(min(self.end, REMEMBERED)) == self.before_end
            void = not same and self.source is not None  # the run goes on from an earlier step, or begins anew
            if not same:
                self._forget(LIVE)
            file.seek(self.end)
            read = file.read(AT_ONCE)
        whole = read[: read.rfind(b"\n") + 1]  # the last line may still be being written
        new = {step for line in whole.splitlines(keepends=True) if (step := self._add(line)) is not None}
        self.before_end = (self.before_end + whole)[-REMEMBERED:]
        for step in new:
            totals, counts = self.sums[step]
            self.means[step] = np.divide(totals, counts, out=np.full(len(totals), np.nan), where=counts > 0).tolist()
        return void, sorted(new), len(read) == AT_ONCE

    def _add(self, line: bytes) -> int | None:
        """Add a line to the sums of its step. Return the step; None for a line that is no row."""
        begin, self.end = self.end, self.end + len(line)
        if (row := row_of(line)) is None:
            return None
        step, numbers = row["step"], [row.get(name) for name in self.columns]
        values = np.array([value if isinstance(value, int | float) else np.nan for value in numbers])
        known = np.isfinite(values)
        self.sums[step] = self.sums.get(step, 0) + np.array([np.where(known, values, 0.0), known])
        self.places[step] = (self.places.get(step, (begin,))[0], self.end)
        self.count += 1
        return step

    def rows(self, step: int) -> list[dict[str, Any]]:
        """The rows of a step; none where they cannot be read now."""
        try:
            if self.source != LIVE:
                present = set(pq.read_schema(self.result).names) & {*self.columns, *TEXTS}
                return pq.read_table(self.result, columns=sorted(present), filters=[("step", "==", step)]).to_pylist()
            begin, end = self.places.get(step, (0, 0))
            with self.live.open("rb") as file:
                file.seek(begin)
                rows = [row_of(line) for line in file.read(end - begin).splitlines(keepends=True)]
            return [row for row in rows if row is not None and row["step"] == step]
        except UNREADABLE:
            return []
