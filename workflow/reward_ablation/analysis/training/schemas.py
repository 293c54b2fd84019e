"""Columns of the tables of training."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, NUMBER, TEXT, columns

SCHEMAS = {
    "rewards_by_step": columns(
        (TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity"), (NUMBER, "mean std"), (COUNT, "rollouts unscored")
    ),
    "signals_by_step": columns((TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity component"), (NUMBER, "value")),
    "component_correlations": columns(
        (TEXT, "arm component_a component_b"), (NUMBER, "estimate low high"), (COUNT, "seeds steps")
    ),
    "sampling_gaps": columns((TEXT, "arm"), (COUNT, "seed over up_to completions"), (NUMBER, "gap corrected")),
}
