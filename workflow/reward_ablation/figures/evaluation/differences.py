"""Figure: each arm's difference to the baseline arm."""

from __future__ import annotations

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import row_height
from reward_ablation.figures.elements.forest import (
    METRICS,
    Row,
    forest_handles,
    forest_note,
    forest_panels,
)
from reward_ablation.figures.elements.style import STYLE, legend_below, looks, page_of_words, title

HEADING = "Differences to the baseline"


@rc_context(STYLE)
def differences(paired_differences: pd.DataFrame, study: StudyFile) -> Figure:
    """One row of panels per data set and mode: difference of each arm to the baseline in accuracy, format, tokens."""
    table = paired_differences[paired_differences["metric"].isin(METRICS)]
    if table.empty:
        return page_of_words(HEADING, "nothing to compare: the study has one arm")
    look = looks(study)
    rows = [Row(arm, look[arm], arm) for arm in study.arm_names if arm != study.baseline]
    height = row_height([row.label for row in rows])
    figure = forest_panels(table.assign(key=table["arm"]), study, rows, height, "difference in")
    title(figure, HEADING)
    note = (
        f"Baseline: {study.baseline}. Arms are paired with it by seed and question. {forest_note(study)} Holm's "
        "correction: over the arms of a panel."
    )
    legend_below(figure, forest_handles(study.confidence), note)
    return figure
