"""Columns of the tables of evaluated models."""

from __future__ import annotations

import pyarrow as pa

from reward_ablation.analysis.schemas.types import COUNT, ESTIMATE, NUMBER, TEXT

SCHEMAS: dict[str, pa.Schema] = {
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
}
