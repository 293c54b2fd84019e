"""Figure: each arm's difference to the baseline arm."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.few_arms import few_arms, rows_of_others
from reward_ablation.figures.elements.forest import Row, forest_panels
from reward_ablation.figures.elements.style import looks, page_of_words
from reward_ablation.study.primary import Contrast


def differences(paired_differences: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """One row of panels per data set and mode: what each arm is above another in the metrics of `panels`.

    Arms stand under what they are compared with: the baseline, the control arm, or an arm that the study declared.
    """
    table = paired_differences[paired_differences["metric"].isin(panels(study))]
    if table.empty:
        return page_of_words("nothing to compare: the study has one arm")
    study = few_arms(study, evaluation_by_arm)
    look = looks(study)
    table = table.assign(key=table["arm"] + " " + table["baseline"])
    rows: list[Row] = []
    for against, of_arm in table.groupby("baseline", sort=False):
        role = {study.baseline: ", the baseline", study.control: ", the control"}.get(str(against), "")
        rows.append(Row(f"against {against}{role}"))
        arms = [arm for arm in look if arm in set(of_arm["arm"])]
        rows += [Row(arm + at_look(study, arm, str(against)), look[arm], f"{arm} {against}") for arm in arms]
        hidden = tuple(dict.fromkeys(rows_of_others(of_arm, study)["key"]))
        rows += [Row(f"{len(hidden):,} other arms", others=hidden)] * bool(hidden)
    before = "Arms are paired by seed and question. "
    if study.sequential is not None and study.sequential.in_force:
        before += "Primary panel: repeated intervals of each contrast's last look, with its number of seeds. "
    family = "the declared comparisons where a panel is primary, else the arms of a panel with the same reference"
    primary = (study.primary.dataset, study.primary.mode, study.primary.metric)
    return forest_panels(table, study, rows, "difference in", family, before, primary)


def at_look(study: StudyFile, arm: str, against: str) -> str:
    """Seeds and decision of a primary contrast of a sequential study; empty for others."""
    record, contrast = study.sequential, Contrast(arm=arm, against=against)
    found = record.decision(contrast) if record is not None and record.in_force else None
    return "" if found is None else f"\n{found[0].seeds} seeds, {found[1].decision}"
