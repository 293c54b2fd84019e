"""Figure: the primary contrasts alone."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import (
    base_note,
    dot_handles,
    draw_rows,
    flag_note,
    interval_note,
    name_rows,
    row_height,
    select,
    share_axis,
)
from reward_ablation.figures.elements.forest import Row, arrow_note, forest, limits
from reward_ablation.figures.elements.style import WIDTH, arm_looks, legend_below
from reward_ablation.figures.evaluation.differences import seeds_and_decision

#: Most contrasts in the figure.
MOST_CONTRASTS = 40


def primary(paired_differences: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the difference of each primary contrast, or in a study without contrasts the primary metric itself."""
    question, look = study.primary, arm_looks(study)
    table = paired_differences[paired_differences["family"] == "primary"]
    labels = [f"{arm} − {against}" for arm, against in zip(table["arm"], table["baseline"], strict=True)]
    table = table.assign(key=labels).head(MOST_CONTRASTS)
    rows = [
        Row(key + seeds_and_decision(study, arm, against), look[arm], key)
        for key, arm, against in zip(table["key"], table["arm"], table["baseline"], strict=True)
    ]
    names = [row.label for row in rows] or study.arm_names
    figure = Figure(figsize=(WIDTH, row_height(names) * len(names) + 1.1))
    panel = figure.subplots()
    count = questions_of(evaluation_by_arm, study)
    panel.set_title(f"{question.dataset}, {question.mode}: {count:,} questions", loc="left")
    name_rows(panel, names)
    if table.empty:
        metric = select(evaluation_by_arm, question.dataset, question.mode, question.metric)
        draw_rows(panel, metric, study, names)
        share_axis(panel, study, question.metric)
        panel.set_xlabel(name_of(question.metric))
        legend_below(figure, [], f"{base_note(study)} Dashed line: base model.{flag_note(metric)}")
        return figure
    level = round(1 - study.confidence, 9)
    panel.set_xlim(limits(table))
    effects = table.set_index("key")
    forest(panel, rows, effects, effects["p_holm"] < level)
    panel.set_xlabel(f"difference in {name_of(question.metric)}")
    note = interval_note(study, of_all=" and all questions", detail=", uncorrected")
    if len(labels) > len(rows):
        note += f" Shown: the first {len(rows)} of {len(labels)} contrasts."
    handles = dot_handles(f"Holm p < {level:g}", "not significant, or no test")
    marks = arrow_note(figure) + flag_note(table)
    legend_below(figure, handles, f"{note} Holm's correction: over the declared comparisons.{marks}")
    return figure


def questions_of(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> int:
    """Number of questions of the primary data set and mode."""
    primary = study.primary
    rows = evaluation_by_arm[
        (evaluation_by_arm["dataset"] == primary.dataset) & (evaluation_by_arm["mode"] == primary.mode)
    ]
    return int(rows["questions"].max())
