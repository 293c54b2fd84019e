"""Columns of the tables of evaluated models."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, ESTIMATE, FLAG, NUMBER, TEXT, columns

SCHEMAS = {
    "evaluation_by_run": columns(
        (TEXT, "arm"), (COUNT, "seed"), (TEXT, "dataset mode metric"), (NUMBER, "value"), (COUNT, "questions answers")
    ),
    "evaluation_by_arm": columns((TEXT, "arm dataset mode metric"), *ESTIMATE),
    "paired_differences": columns(
        (TEXT, "arm baseline dataset mode metric"),
        *ESTIMATE,
        (NUMBER, "p p_holm smallest_effect"),
        (TEXT, "provenance"),
    ),
    # method: main_effect, interaction, shapley, leave_one_out, one_at_a_time or regression; component: "a:b" for an
    # interaction of two components.
    "component_effects": columns(
        (TEXT, "dataset mode metric method component"), *ESTIMATE, (NUMBER, "p p_holm smallest_effect")
    ),
    # statistic: iqm (without a baseline) or probability_of_improvement.
    "across_datasets": columns(
        (TEXT, "arm baseline mode metric statistic"), (NUMBER, "estimate low high"), (COUNT, "seeds datasets")
    ),
    "learning_curves": columns((TEXT, "arm"), (COUNT, "step"), (TEXT, "dataset mode metric"), *ESTIMATE),
    # source: training (without a data set) or evaluation.
    "problem_curves": columns(
        (TEXT, "problem_id question arm"), (COUNT, "step"), (TEXT, "source dataset"), *ESTIMATE, (COUNT, "answers")
    ),
    # model: base (without a seed) or final; chosen: first, gained or lost.
    "examples": columns(
        (TEXT, "dataset mode problem_id question gold arm"),
        (COUNT, "seed"),
        (TEXT, "model completion answer"),
        (FLAG, "correct_strict correct_lenient format"),
        (COUNT, "tokens"),
        (FLAG, "truncated"),
        (TEXT, "chosen"),
    ),
}
