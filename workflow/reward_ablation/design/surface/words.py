"""What the check of the surface says, in words: for the figure, the summary and the command."""

from __future__ import annotations

import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of
from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import number

#: The rules of the check in words.
NAMES = {
    "surface": "the surface",
    "nearest": "the nearest arm",
    "alone": "each component as when rewarded alone",
    "mean": "the mean of the other arms",
}


def limits_of_primary(study: StudyFile) -> Limits:
    """Limits of the primary metric."""
    return metrics_of_study(study).limits(study.primary.metric)


def about_metric(study: StudyFile) -> str:
    """The primary metric, its data set and mode."""
    primary = study.primary
    return f"{name_of(primary.metric)} on {primary.dataset} ({primary.mode})"


def errors(check: pd.DataFrame, study: StudyFile) -> str:
    """The errors of all rules, and the coverage of the surface's intervals."""
    limits, rows = limits_of_primary(study), check.set_index("rule")
    told = []
    for rule, row in rows.iterrows():
        if row["arms"] and rule != "surface":
            told.append(f"{NAMES[str(rule)]} {number(row['error'], limits)}")
            if row["arms"] < rows.loc["surface", "arms"]:
                same = number(row["surface_error"], limits)
                told[-1] += f" on {row['arms']} arms, where the surface has {same}"
    surface = rows.iloc[0]
    level = f"{100 * study.confidence:g}\u00a0%"
    return (
        f"Error where each arm is predicted from the others (root mean square): the surface "
        f"{number(surface['error'], limits)}; {'; '.join(told)}. Its {level} intervals held "
        f"{round(surface['coverage'] * surface['arms'])} of {surface['arms']} arms."
    )


def verdict(check: pd.DataFrame) -> str:
    """Whether the surface is worth using."""
    if is_ahead(check):
        return "The surface is ahead of the rules without a model."
    behind = [NAMES[str(rule)] for rule in check.loc[check["ahead"].eq(False), "rule"]]
    if not behind:
        return "The arms are too few for a check: no arm is suggested."
    return f"The surface is not clearly better than {' or '.join(behind)}: no arm is suggested."


def is_ahead(check: pd.DataFrame) -> bool:
    """Whether the surface is ahead of every rule that it is compared with."""
    compared = check["ahead"].dropna()
    return len(compared) > 0 and bool(compared.astype(bool).all())
