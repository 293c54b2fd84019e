"""Figure: each arm's difference to the baseline arm."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.forest import Row, forest_panels
from reward_ablation.figures.elements.style import looks, page_of_words


def differences(paired_differences: pd.DataFrame, study: StudyFile) -> Figure:
    """One row of panels per data set and mode: what each arm is above another in the metrics of `panels`.

    Arms stand under what they are compared with: the baseline, the control arm, or an arm that the study declared.
    """
    table = paired_differences[paired_differences["metric"].isin(panels(study))]
    if table.empty:
        return page_of_words("nothing to compare: the study has one arm")
    look = looks(study)
    table = table.assign(key=table["arm"] + " " + table["baseline"])
    rows: list[Row] = []
    for against, of_arm in table.groupby("baseline", sort=False):
        role = {study.baseline: ", the baseline", study.control: ", the control"}.get(str(against), "")
        rows.append(Row(f"against {against}{role}"))
        rows += [Row(arm, look[arm], f"{arm} {against}") for arm in look if arm in set(of_arm["arm"])]
    before = "Arms are paired by seed and question. "
    family = "the declared comparisons where a panel is primary, else the arms of a panel with the same reference"
    primary = (study.primary.dataset, study.primary.mode, study.primary.metric)
    return forest_panels(table, study, rows, "difference in", family, before, primary)
