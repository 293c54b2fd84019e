"""Figure: each arm's difference to the baseline arm."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.forest import METRICS, Row, forest_panels
from reward_ablation.figures.elements.style import looks, page_of_words


def differences(paired_differences: pd.DataFrame, study: StudyFile) -> Figure:
    """One row of panels per data set and mode: difference of each arm to the baseline in accuracy, format, tokens."""
    table = paired_differences[paired_differences["metric"].isin(METRICS)]
    if table.empty:
        return page_of_words("nothing to compare: the study has one arm")
    rows = [Row(arm, look, arm) for arm, look in looks(study).items() if arm != study.baseline]
    before = f"Baseline: {study.baseline}. Arms are paired with it by seed and question. "
    return forest_panels(
        table.assign(key=table["arm"]), study, rows, "difference in", "the arms of a panel", before=before
    )
