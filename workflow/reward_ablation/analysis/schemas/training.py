"""Columns of the tables of training."""

from __future__ import annotations

import pyarrow as pa

from reward_ablation.analysis.schemas.types import COUNT, FLAG, NUMBER, TEXT

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
            "unscored": COUNT,
        }
    ),
    "signals_by_step": pa.schema(
        {"arm": TEXT, "seed": COUNT, "step": COUNT, "quantity": TEXT, "component": TEXT, "value": NUMBER}
    ),
    "component_correlations": pa.schema(
        {
            "arm": TEXT,
            "component_a": TEXT,
            "component_b": TEXT,
            "estimate": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "seeds": COUNT,
            "steps": COUNT,
        }
    ),
    "sampling_gaps": pa.schema(
        {
            "arm": TEXT,
            "seed": COUNT,
            "over": COUNT,
            "up_to": COUNT,
            "completions": COUNT,
            "gap": NUMBER,
            "corrected": NUMBER,
        }
    ),
    "predictors": pa.schema(
        {
            "arm": TEXT,
            "predictor": TEXT,
            "component": TEXT,
            "estimate": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "seeds": COUNT,
            "steps": COUNT,
            "window": COUNT,
        }
    ),
    "reward_hacking": pa.schema(
        {
            "arm": TEXT,
            "component": TEXT,
            "measure": TEXT,
            "sign": FLAG,
            "turned_at": COUNT,
            "rise": NUMBER,
            "rise_low": NUMBER,
            "rise_high": NUMBER,
            "fall": NUMBER,
            "fall_low": NUMBER,
            "fall_high": NUMBER,
            "component_before": NUMBER,
            "component_after": NUMBER,
            "accuracy_before": NUMBER,
            "accuracy_after": NUMBER,
            "seeds": COUNT,
            "points": COUNT,
            "sentence": TEXT,
        }
    ),
}
