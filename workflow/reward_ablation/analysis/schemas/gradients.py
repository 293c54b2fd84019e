"""Columns of the tables of gradients."""

from __future__ import annotations

import pyarrow as pa

from reward_ablation.analysis.schemas.types import COUNT, NUMBER, TEXT

SCHEMAS: dict[str, pa.Schema] = {
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
            "folding_error": NUMBER,
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
            "folding_error": NUMBER,
            "seeds": COUNT,
            "steps": COUNT,
        }
    ),
    "alignment_by_step": pa.schema(
        {"arm": TEXT, "seed": COUNT, "step": COUNT, "quantity": TEXT, "component": TEXT, "value": NUMBER}
    ),
    "split_halves": pa.schema(
        {
            "arm": TEXT,
            "seed": COUNT,
            "step": COUNT,
            "layer": TEXT,
            "component_a": TEXT,
            "component_b": TEXT,
            "estimate": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "prompts": COUNT,
        }
    ),
    "what_if": pa.schema(
        {
            "arm": TEXT,
            "step": COUNT,
            "point": COUNT,
            "component": TEXT,
            "effect": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "seeds": COUNT,
            "steps": COUNT,
        }
    ),
    "what_if_points": pa.schema({"point": COUNT, "component": TEXT, "weight": NUMBER}),
    "what_if_check": pa.schema(
        {
            "arm": TEXT,
            "component": TEXT,
            "predicted": NUMBER,
            "predicted_low": NUMBER,
            "predicted_high": NUMBER,
            "observed": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "seeds": COUNT,
        }
    ),
}
