"""Columns of the table of provenance."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, FLAG, TEXT, columns

SCHEMAS = {
    "provenance": columns((TEXT, "quantity value"), (FLAG, "mixed"), (COUNT, "runs split_runs"), (TEXT, "arms")),
}
