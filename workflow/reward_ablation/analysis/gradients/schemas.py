"""Columns of the tables of gradients."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, NUMBER, TEXT, columns

SCHEMAS = {
    "similarity_by_step": columns(
        (TEXT, "arm"),
        (COUNT, "seed step"),
        (TEXT, "layer component_a component_b definition"),
        (
            NUMBER,
            "dot cosine cosine_low cosine_high norm_a norm_b self same_prompt cross_prompt across_blocks folding_error",
        ),
    ),
    "similarity_by_arm": columns(
        (TEXT, "arm definition layer component_a component_b part"),
        (NUMBER, "estimate low high folding_error"),
        (COUNT, "seeds steps"),
    ),
    "alignment_by_step": columns((TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity component"), (NUMBER, "value")),
    "split_halves": columns(
        (TEXT, "arm"),
        (COUNT, "seed step"),
        (TEXT, "layer component_a component_b"),
        (NUMBER, "estimate low high"),
        (COUNT, "prompts"),
    ),
    "what_if": columns(
        (TEXT, "arm"), (COUNT, "step point"), (TEXT, "component"), (NUMBER, "effect low high"), (COUNT, "seeds steps")
    ),
    "what_if_points": columns((COUNT, "point"), (TEXT, "component"), (NUMBER, "weight")),
    "what_if_check": columns(
        (TEXT, "arm component"), (NUMBER, "predicted predicted_low predicted_high observed low high"), (COUNT, "seeds")
    ),
    "predictors": columns(
        (TEXT, "arm predictor component"), (NUMBER, "estimate low high"), (COUNT, "seeds steps window")
    ),
}
