"""Columns of the tables of training."""

from __future__ import annotations

import pyarrow as pa

from reward_ablation.analysis.schemas.types import COUNT, NUMBER, TEXT

SCHEMAS: dict[str, pa.Schema] = {
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
}
