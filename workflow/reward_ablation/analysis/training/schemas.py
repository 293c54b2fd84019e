"""Columns of the tables of training."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, NUMBER, TEXT, columns

SCHEMAS = {
    "rewards_by_step": columns(
        arm=TEXT, seed=COUNT, step=COUNT, quantity=TEXT, mean=NUMBER, std=NUMBER, rollouts=COUNT, unscored=COUNT
    ),
    "signals_by_step": columns(arm=TEXT, seed=COUNT, step=COUNT, quantity=TEXT, component=TEXT, value=NUMBER),
    "component_correlations": columns(
        arm=TEXT, component_a=TEXT, component_b=TEXT, estimate=NUMBER, low=NUMBER, high=NUMBER, seeds=COUNT, steps=COUNT
    ),
    "sampling_gaps": columns(
        arm=TEXT, seed=COUNT, over=COUNT, up_to=COUNT, completions=COUNT, gap=NUMBER, corrected=NUMBER
    ),
}
