"""Columns of the table of provenance."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, FLAG, TEXT, columns

SCHEMAS = {
    "provenance": columns(quantity=TEXT, value=TEXT, mixed=FLAG, runs=COUNT, split_runs=COUNT, arms=TEXT),
}
