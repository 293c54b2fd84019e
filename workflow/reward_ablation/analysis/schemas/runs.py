"""Columns of the tables of runs and of what trained them."""

from __future__ import annotations

import pyarrow as pa

from reward_ablation.analysis.schemas.types import COUNT, FLAG, NUMBER, TEXT

#: What a run cost. These differ between two runs of one study on one machine, one of them interrupted: they are in the
#: CSV file only, so that equal studies have equal Parquet files.
COST = {
    "attempts": COUNT,
    "interrupted": COUNT,
    "steps_lost": COUNT,
    "wall_seconds": NUMBER,
    "seconds_lost": NUMBER,
    "gpu_hours": NUMBER,
    "gpu_hours_lost": NUMBER,
    "gpu_hours_of_jobs": NUMBER,
    "gpu_hours_accounted": NUMBER,
    "cpu_hours": NUMBER,
    "cpu_hours_of_jobs": NUMBER,
    "cpu_hours_accounted": NUMBER,
    "evaluation_wall_hours": NUMBER,
    "evaluation_gpu_hours": NUMBER,
    "evaluation_cpu_hours": NUMBER,
}

SCHEMAS: dict[str, pa.Schema] = {
    "runs": pa.schema(
        {
            "arm": TEXT,
            "key": TEXT,
            "seed": COUNT,
            "steps": COUNT,
            **COST,
            "code": TEXT,
            "hardware": TEXT,
            "packages": TEXT,
        }
    ),
    "provenance": pa.schema(
        {
            "quantity": TEXT,
            "value": TEXT,
            "mixed": FLAG,
            "runs": COUNT,
            "split_runs": COUNT,
            "arms": TEXT,
        }
    ),
}
