"""The tables of a study: their columns, and how they are written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.study.files import atomic_path, write_parquet

TEXT, COUNT, NUMBER = pa.string(), pa.int64(), pa.float64()

ESTIMATE = {"estimate": NUMBER, "low": NUMBER, "high": NUMBER, "seeds": COUNT, "questions": COUNT}

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
}

#: Columns of each table. Numbers may be null: a component that cannot score, a gradient without direction.
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
            "mixed": pa.bool_(),
            "runs": COUNT,
            "split_runs": COUNT,
            "arms": TEXT,
        }
    ),
    "evaluation_by_run": pa.schema(
        {
            "arm": TEXT,
            "seed": COUNT,
            "dataset": TEXT,
            "mode": TEXT,
            "questions": COUNT,
            "answers": COUNT,
            "accuracy_strict": NUMBER,
            "accuracy_lenient": NUMBER,
            "accuracy_math_paper": NUMBER,
            "graders_differ": NUMBER,
            "correct_only_strict": NUMBER,
            "correct_only_math_paper": NUMBER,
            "format": NUMBER,
            "tokens": NUMBER,
            "truncated": NUMBER,
        }
    ),
    "evaluation_by_arm": pa.schema({"arm": TEXT, "dataset": TEXT, "mode": TEXT, "metric": TEXT, **ESTIMATE}),
    "paired_differences": pa.schema(
        {"arm": TEXT, "baseline": TEXT, "dataset": TEXT, "mode": TEXT, "metric": TEXT, **ESTIMATE, "provenance": TEXT}
    ),
    "rewards_by_step": pa.schema(
        {
            "arm": TEXT,
            "seed": COUNT,
            "step": COUNT,
            "quantity": TEXT,
            "mean": NUMBER,
            "std": NUMBER,
            "rollouts": COUNT,
        }
    ),
    "similarity_by_step": pa.schema(
        {
            "arm": TEXT,
            "seed": COUNT,
            "step": COUNT,
            "layer": TEXT,
            "component_a": TEXT,
            "component_b": TEXT,
            "definition": TEXT,
            "dot": NUMBER,
            "cosine": NUMBER,
            "cosine_low": NUMBER,
            "cosine_high": NUMBER,
            "norm_a": NUMBER,
            "norm_b": NUMBER,
            "self": NUMBER,
            "same_prompt": NUMBER,
            "cross_prompt": NUMBER,
            "across_blocks": NUMBER,
        }
    ),
    "similarity_by_arm": pa.schema(
        {
            "arm": TEXT,
            "definition": TEXT,
            "layer": TEXT,
            "component_a": TEXT,
            "component_b": TEXT,
            "part": TEXT,
            "estimate": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "seeds": COUNT,
            "steps": COUNT,
        }
    ),
}


def joined(name: str, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all parts under the columns of table `name`; an empty table where there is no row."""
    columns = SCHEMAS[name].names
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[columns] if filled else pd.DataFrame(columns=columns)


def write_table(name: str, frame: pd.DataFrame, folder: str | Path) -> None:
    """Write a table as `name.parquet` and `name.csv`; nulls are empty cells in CSV."""
    table = pa.Table.from_pandas(frame, schema=SCHEMAS[name], preserve_index=False)
    write_parquet(
        table.drop_columns([column for column in COST if column in table.column_names]),
        Path(folder) / f"{name}.parquet",
    )
    with atomic_path(Path(folder) / f"{name}.csv") as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")


def read_table(name: str, folder: str | Path) -> pd.DataFrame:
    """Read a table that `write_table` wrote, without what runs cost."""
    return read_parquet(Path(folder) / f"{name}.parquet")
