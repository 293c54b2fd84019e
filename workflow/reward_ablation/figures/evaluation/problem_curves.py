"""Figure: share of correct answers to single problems over training steps."""

from __future__ import annotations

import textwrap
from math import ceil

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.examples import visible
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import draw_curves, step_axis
from reward_ablation.figures.elements.style import (
    WIDTH,
    arm_handles,
    legend_below,
    page_of_words,
    panel_grid,
    replace_undrawable,
)

#: Most arms in a panel: the curves of more arms could not be told apart.
MOST_ARMS = 6

#: Panels in a row. Of a panel's title: font size, most characters in a line, and most lines.
COLUMNS, TITLE_SIZE, TITLE_WIDTH, TITLE_LINES = 3, 7, 32, 3


def problem_curves(table: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a panel per problem, with a line for each arm: problems of training first, then of evaluation."""
    if table.empty:
        return page_of_words("No run and no evaluation met the problems of figures.problems.")
    arms = study.arm_names[:MOST_ARMS]
    problems = table.groupby(["source", "problem_id"], sort=False)
    figure = Figure(figsize=(WIDTH, 1.95 * ceil(len(problems) / COLUMNS) + 0.4))
    for axes, ((source, problem), rows) in zip(panel_grid(figure, len(problems), COLUMNS), problems, strict=True):
        draw_curves(axes, rows.rename(columns={"step": "x", "estimate": "mean"}), study, arms)
        question = rows["question"].iloc[0]
        words = heading(str(source), str(problem if pd.isna(question) else question))
        axes.set_title(words, loc="left", fontsize=TITLE_SIZE, parse_math=False)
        axes.set_ylim(-0.04, 1.04)
        axes.set_ylabel("share correct")
        step_axis(axes, rows["step"])
    legend_below(figure, arm_handles(study, arms), note(study, set(table["source"])))
    return figure


def heading(source: str, text: str) -> str:
    """Source of a problem and the beginning of its question, in at most `TITLE_LINES` lines."""
    words = replace_undrawable(" ".join(visible(text).split()))
    return "\n".join(textwrap.wrap(f"{source}: {words}", TITLE_WIDTH, max_lines=TITLE_LINES, placeholder="…"))


def note(study: StudyFile, sources: set[str]) -> str:
    """Say which problems are shown."""
    evaluated = "Evaluation: step 0 is the base model." if "evaluation" in sources else ""
    lines = "Lines: share of the answers of all seeds together; the table has intervals."
    shown = f"Shown: the first {MOST_ARMS} of {len(study.arms)} arms." if len(study.arms) > MOST_ARMS else ""
    return " ".join(filter(None, ["Problems that the study names.", evaluated, lines, shown]))
