"""Columns of the tables of evaluated models."""

from __future__ import annotations

from reward_ablation.analysis.columns import COUNT, ESTIMATE, FLAG, NUMBER, TEXT, columns

#: A test of an estimate against 0.
TEST = {"p": NUMBER, "p_holm": NUMBER, "smallest_effect": NUMBER}

SCHEMAS = {
    "evaluation_by_run": columns(
        arm=TEXT, seed=COUNT, dataset=TEXT, mode=TEXT, metric=TEXT, value=NUMBER, questions=COUNT, answers=COUNT
    ),
    "evaluation_by_arm": columns(arm=TEXT, dataset=TEXT, mode=TEXT, metric=TEXT, **ESTIMATE),
    "paired_differences": columns(
        arm=TEXT, baseline=TEXT, dataset=TEXT, mode=TEXT, metric=TEXT, **ESTIMATE, **TEST, provenance=TEXT
    ),
    # method: main_effect, interaction, shapley, leave_one_out, one_at_a_time or regression; component: "a:b" for an
    # interaction of two components.
    "component_effects": columns(dataset=TEXT, mode=TEXT, metric=TEXT, method=TEXT, component=TEXT, **ESTIMATE, **TEST),
    # statistic: iqm (without a baseline) or probability_of_improvement.
    "across_datasets": columns(
        arm=TEXT,
        baseline=TEXT,
        mode=TEXT,
        metric=TEXT,
        statistic=TEXT,
        estimate=NUMBER,
        low=NUMBER,
        high=NUMBER,
        seeds=COUNT,
        datasets=COUNT,
    ),
    "learning_curves": columns(arm=TEXT, step=COUNT, dataset=TEXT, mode=TEXT, metric=TEXT, **ESTIMATE),
    # source: training (without a data set) or evaluation.
    "problem_curves": columns(
        problem_id=TEXT, question=TEXT, arm=TEXT, step=COUNT, source=TEXT, dataset=TEXT, **ESTIMATE, answers=COUNT
    ),
    # model: base (without a seed) or final; chosen: first, gained or lost.
    "examples": columns(
        dataset=TEXT,
        mode=TEXT,
        problem_id=TEXT,
        question=TEXT,
        gold=TEXT,
        arm=TEXT,
        seed=COUNT,
        model=TEXT,
        completion=TEXT,
        answer=TEXT,
        correct_strict=FLAG,
        correct_lenient=FLAG,
        format=FLAG,
        tokens=COUNT,
        truncated=FLAG,
        chosen=TEXT,
    ),
}
