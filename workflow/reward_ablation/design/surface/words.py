"""Sentences on the check of the surface, for the figure, the summary and `snakemake suggest`."""

from __future__ import annotations

import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of
from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import number

#: Names of the rules of the check.
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
    """The primary metric with its data set and mode, in words."""
    primary = study.primary
    return f"{name_of(primary.metric)} on {primary.dataset} ({primary.mode})"


def errors(check: pd.DataFrame, study: StudyFile) -> str:
    """Say the errors of all rules, and how many arms are within the surface's intervals."""
    limits, rows = limits_of_primary(study), check.set_index("rule")
    other_rules = []
    for rule, row in rows.iterrows():
        if row["arms"] and rule != "surface":
            words = f"{NAMES[str(rule)]} {number(row['error'], limits)}"
            if row["arms"] < rows.loc["surface", "arms"]:
                surface_error = number(row["surface_error"], limits)
                words += f" on {row['arms']} arms, where the surface has {surface_error}"
            other_rules.append(words)
    surface = rows.iloc[0]
    level = f"{100 * study.confidence:g}\u00a0%"
    return (
        f"Root mean square error if each arm is predicted from the others: the surface "
        f"{number(surface['error'], limits)}; {'; '.join(other_rules)}. "
        f"{round(surface['coverage'] * surface['arms'])} of {surface['arms']} arms are within the surface's {level} "
        "intervals."
    )


def verdict(check: pd.DataFrame) -> str:
    """Say whether the surface is clearly better than the simple rules."""
    if is_ahead(check):
        return "The surface is clearly better than the simple rules."
    behind = [NAMES[str(rule)] for rule in check.loc[check["ahead"].eq(False), "rule"]]
    if not behind:
        return "There are too few arms for a check: no arm is suggested."
    return f"The surface is not clearly better than {' or '.join(behind)}: no arm is suggested."


def is_ahead(check: pd.DataFrame) -> bool:
    """Whether the surface is clearly better than every rule with which it is compared; False if there is none."""
    compared = check["ahead"].dropna()
    return len(compared) > 0 and bool(compared.astype(bool).all())
