"""Figure: evaluation over training."""

from __future__ import annotations

import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import arm_groups, draw_curve, step_axis
from reward_ablation.figures.elements.estimates import kinds
from reward_ablation.figures.elements.style import STYLE, WIDTH, legend_below, looks, page_of_words, title, wrapped

HEADING = "Evaluation over training"

#: Characters of a title, which reaches over all panels of its row.
TITLE_WIDTH = 90

#: Metrics of the panels in a row, and what is written beside them.
METRICS = {"accuracy_strict": "strict accuracy", "format": "format adherence", "tokens": "completion tokens"}


@rc_context(STYLE)
def learning_curves(table: pd.DataFrame, study: StudyFile) -> Figure:
    """A row of panels per data set and mode: strict accuracy, format adherence and tokens, with a line and band an arm.

    Where arms are many, a row per group of arms.
    """
    if not study.keep_models:
        words = "No models were kept during training; keep_models in the config keeps them at every n-th step."
        return page_of_words(HEADING, words)
    groups = arm_groups(study)
    rows = [(kind, arms) for kind in kinds(table, study) for arms in groups]
    figure = Figure(figsize=(WIDTH, len(rows) * 1.75 + 0.4))
    grid = figure.subplots(len(rows), len(METRICS), squeeze=False, sharex=True)
    for panels, ((dataset, mode, questions), arms) in zip(grid, rows, strict=True):
        of_row = table[(table["dataset"] == dataset) & (table["mode"] == mode)]
        for panel, (metric, label) in zip(panels, METRICS.items(), strict=True):
            draw_arms(panel, of_row[of_row["metric"] == metric], study, arms)
            panel.set_ylabel(label)
            panel.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        some = f"; arms {study.arm_names.index(arms[0]) + 1} to {study.arm_names.index(arms[-1]) + 1}"
        name = f"{dataset}, {mode}: {questions:,} questions{some if len(groups) > 1 else ''}"
        panels[0].set_title(wrapped(name, TITLE_WIDTH), loc="left")
    for panel in grid.flat:
        step_axis(panel, table["step"])
    for panel in grid[:-1].flat:
        panel.set_xlabel("")
    title(figure, HEADING)
    legend_below(figure, arm_handles(study, study.arm_names), band_note(study), most_columns=max(6, len(groups)))
    return figure


def arm_handles(study: StudyFile, arms: list[str]) -> list[Artist]:
    """Legend entries of some arms."""
    look = looks(study)
    return [
        Line2D([], [], color=look[arm].colour, linestyle=look[arm].dashes, marker=look[arm].marker, label=arm)
        for arm in arms
    ]


def draw_arms(axes: Axes, rows: pd.DataFrame, study: StudyFile, arms: list[str]) -> None:
    """Draw the estimates of some arms over steps, with their intervals as bands.

    Parameters
    ----------
    rows : DataFrame
        Columns arm, step, estimate, low, high.
    """
    look = looks(study)
    for place, arm in enumerate(arms):
        curve = rows[rows["arm"] == arm].sort_values("step").rename(columns={"step": "x", "estimate": "mean"})
        if not curve.empty:
            draw_curve(axes, curve.reset_index(drop=True), arm, look[arm], place, len(arms))


def band_note(study: StudyFile) -> str:
    """Say what lines and bands are."""
    seeds = len(study.seeds)
    level = f"{100 * study.confidence:g} % intervals"
    ends = "Step 0: the base model; last step: the final model."
    if seeds == 1:
        return f"Line: the one seed. Band: {level} over questions only; nothing is known of other seeds. {ends}"
    return f"Line: mean over {seeds} seeds. Band: {level} over seeds and questions. {ends}"
