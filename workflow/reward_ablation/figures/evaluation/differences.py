"""Figure: difference of each arm to the baseline, to the control, and to the arms that the study declared."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms, rows_of_others
from reward_ablation.figures.elements.forest import Row, forest_panels
from reward_ablation.figures.elements.style import arm_looks, page_of_words
from reward_ablation.study.primary import Contrast


def differences(paired_differences: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the differences between arms: a row of panels per data set and mode, and a panel per metric of `panels`.

    Arms are listed below the arm with which they are compared: the baseline, the control, or another arm that the
    study declared.
    """
    table = paired_differences[paired_differences["metric"].isin(panels(study))]
    if table.empty:
        return page_of_words("nothing to compare: the study has one arm")
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    look = arm_looks(study)
    table = table.assign(key=table["arm"] + " " + table["baseline"])
    rows: list[Row] = []
    for against, of_arm in table.groupby("baseline", sort=False):
        role = {study.baseline: ", the baseline", study.control: ", the control"}.get(str(against), "")
        rows.append(Row(f"against {against}{role}"))
        arms = [arm for arm in look if arm in set(of_arm["arm"])]
        rows += [Row(arm + seeds_and_decision(study, arm, str(against)), look[arm], f"{arm} {against}") for arm in arms]
        hidden = tuple(dict.fromkeys(rows_of_others(of_arm, study)["key"]))
        rows += [Row(f"{len(hidden):,} other arms", others=hidden)] * bool(hidden)
    before = "Arms are paired by seed and question. "
    if study.sequential is not None and study.sequential.in_force:
        before += "Primary panel: repeated confidence intervals at each contrast's last look, with its seeds. "
    family = "the declared comparisons where a panel is primary, else the arms of a panel with the same reference"
    primary = (study.primary.dataset, study.primary.mode, study.primary.metric)
    return forest_panels(table, study, rows, "difference in", family, before, primary)


def seeds_and_decision(study: StudyFile, arm: str, against: str) -> str:
    """Seeds and decision of a primary contrast in a sequential study; empty for other contrasts and studies."""
    record, contrast = study.sequential, Contrast(arm=arm, against=against)
    decided = record.decision(contrast) if record is not None and record.in_force else None
    return "" if decided is None else f"\n{decided[0].seeds} seeds, {decided[1].decision}"
