"""Columns of the table of signs of reward hacking."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, FLAG, NUMBER, TEXT, columns

SCHEMAS = {
    "reward_hacking": columns(
        (TEXT, "arm component measure"),
        (FLAG, "sign"),
        (COUNT, "turned_at"),
        (NUMBER, "rise rise_low rise_high fall fall_low fall_high"),
        (NUMBER, "component_before component_after accuracy_before accuracy_after"),
        (COUNT, "seeds points"),
        (TEXT, "sentence"),
    ),
}
