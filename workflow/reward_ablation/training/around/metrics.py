"""The trainer's per-step metrics as a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

#: Metrics that a clock decides: they differ between two equal runs, and have their place in run.json.
TIMED = (
    "step_time",
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_tokens_per_second",
    "total_flos",
)


def metrics_table(history: list[dict[str, Any]]) -> pa.Table:
    """One row a step, one column a metric, null where a step did not log it.

    Parameters
    ----------
    history : list of dict
        `trainer.state.log_history`.
    """
    rows = [row for row in history if "loss" in row]  # the last entry sums up the whole training
    names = sorted({name for row in rows for name in row} - {"step", *TIMED})
    columns = {name: pa.array([_number(row.get(name)) for row in rows], pa.float64()) for name in names}
    return pa.table({"step": pa.array([row["step"] for row in rows], pa.int64()), **columns})


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
