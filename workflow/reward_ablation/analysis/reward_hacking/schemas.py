"""Columns of the table of signs of reward hacking."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, FLAG, NUMBER, TEXT, columns

SCHEMAS = {
    "reward_hacking": columns(
        arm=TEXT,
        component=TEXT,
        measure=TEXT,
        sign=FLAG,
        turned_at=COUNT,
        rise=NUMBER,
        rise_low=NUMBER,
        rise_high=NUMBER,
        fall=NUMBER,
        fall_low=NUMBER,
        fall_high=NUMBER,
        component_before=NUMBER,
        component_after=NUMBER,
        accuracy_before=NUMBER,
        accuracy_after=NUMBER,
        seeds=COUNT,
        points=COUNT,
        sentence=TEXT,
    ),
}
