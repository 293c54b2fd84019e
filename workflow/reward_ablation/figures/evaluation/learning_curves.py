"""Figure: evaluation of the models that were kept during training."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels as metric_panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import arm_groups, draw_steps, numbers_of, seeds_note
from reward_ablation.figures.elements.estimates import datasets_and_modes
from reward_ablation.figures.elements.few_arms import others_note, reduced_to_shown_arms
from reward_ablation.figures.elements.style import WIDTH, arm_handles, legend_below, page_of_words, round_ticks, wrapped

#: Most characters in a line of a title, which spans all panels of its row.
TITLE_WIDTH = 90


def learning_curves(table: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a row of panels per data set and mode, and a panel per metric, with a line for each arm and each seed.

    A study with many arms has a row for each group of arms.
    """
    if not study.keep_models:
        return page_of_words(
            "No models were kept during training. Set keep_models in the config to keep one at every n-th step."
        )
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    groups = arm_groups(study)
    rows = [(kind, arms) for kind in datasets_and_modes(table, study) for arms in groups]
    figure = Figure(figsize=(WIDTH, len(rows) * 1.75 + 0.4))
    metrics = metric_panels(study)
    grid = figure.subplots(len(rows), len(metrics), squeeze=False, sharex=True)
    for panels, ((dataset, mode, questions), arms) in zip(grid, rows, strict=True):
        of_row = table[(table["dataset"] == dataset) & (table["mode"] == mode)]
        for panel, (metric, label) in zip(panels, metrics.items(), strict=True):
            draw_steps([(panel, arms)], of_row[of_row["metric"] == metric], "value", study, table["step"])
            panel.set_ylabel(label)
            round_ticks(panel.yaxis, 5)
        shown_arms = f"; {numbers_of(arms, study)}" if len(groups) > 1 else ""
        heading = f"{dataset}, {mode}: {questions:,} questions{shown_arms}"
        panels[0].set_title(wrapped(heading, TITLE_WIDTH), loc="left")
    for panel in grid[:-1].flat:
        panel.set_xlabel("")
    note = f"{seeds_note(study, table['step'])} Step 0: the base model; last step: the final model."
    note += others_note(study)
    legend_below(figure, arm_handles(study), note, most_columns=max(6, len(groups)))
    return figure
