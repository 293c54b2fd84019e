"""Columns of the tables of evaluated models."""

from __future__ import annotations

import pyarrow as pa

from reward_ablation.analysis.schemas.types import COUNT, ESTIMATE, FLAG, NUMBER, TEXT

#: A test of an estimate against 0.
TEST = {"p": NUMBER, "p_holm": NUMBER, "smallest_effect": NUMBER}

SCHEMAS: dict[str, pa.Schema] = {
    "evaluation_by_run": pa.schema(
        {
            "arm": TEXT,
            "seed": COUNT,
            "dataset": TEXT,
            "mode": TEXT,
            "metric": TEXT,
            "value": NUMBER,
            "questions": COUNT,
            "answers": COUNT,
        }
    ),
    "evaluation_by_arm": pa.schema({"arm": TEXT, "dataset": TEXT, "mode": TEXT, "metric": TEXT, **ESTIMATE}),
    "paired_differences": pa.schema(
        {
            "arm": TEXT,
            "baseline": TEXT,
            "dataset": TEXT,
            "mode": TEXT,
            "metric": TEXT,
            **ESTIMATE,
            **TEST,
            "provenance": TEXT,
        }
    ),
    "component_effects": pa.schema(
        {
            "dataset": TEXT,
            "mode": TEXT,
            "metric": TEXT,
            "method": TEXT,  # main_effect, interaction, shapley, leave_one_out, one_at_a_time, regression
            "component": TEXT,  # "a:b" for an interaction
            **ESTIMATE,
            **TEST,
        }
    ),
    "across_datasets": pa.schema(
        {
            "arm": TEXT,
            "baseline": TEXT,  # null for iqm
            "mode": TEXT,
            "metric": TEXT,
            "statistic": TEXT,  # iqm, probability_of_improvement
            "estimate": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "seeds": COUNT,
            "datasets": COUNT,
        }
    ),
    "learning_curves": pa.schema(
        {"arm": TEXT, "step": COUNT, "dataset": TEXT, "mode": TEXT, "metric": TEXT, **ESTIMATE}
    ),
    "problem_curves": pa.schema(
        {
            "problem_id": TEXT,
            "question": TEXT,
            "arm": TEXT,
            "step": COUNT,
            "source": TEXT,  # training, evaluation
            "dataset": TEXT,  # null for training
            **ESTIMATE,
            "answers": COUNT,
        }
    ),
    "examples": pa.schema(
        {
            "dataset": TEXT,
            "mode": TEXT,
            "problem_id": TEXT,
            "question": TEXT,
            "gold": TEXT,
            "arm": TEXT,
            "seed": COUNT,  # null for the base model
            "model": TEXT,  # base, final
            "completion": TEXT,
            "answer": TEXT,
            "correct_strict": FLAG,
            "correct_lenient": FLAG,
            "format": FLAG,
            "tokens": COUNT,
            "truncated": FLAG,
            "chosen": TEXT,  # first, gained, lost
        }
    ),
}
