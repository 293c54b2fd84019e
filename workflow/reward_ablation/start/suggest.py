"""`snakemake suggest`: the arm to train next, by the tables of the surface over the weights."""

from __future__ import annotations

from statistics import median

import pandas as pd

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.registry import RULES, file_of
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.analysis.words import number
from reward_ablation.design.surface.choice import Choice, choices
from reward_ablation.design.surface.words import NAMES, about_metric, errors, is_ahead, limits_of_primary, verdict
from reward_ablation.study.study import Study
from reward_ablation.study.weight_surface import DESIGNS
from reward_ablation.system.errors import StudyError

#: Tables that the suggestion is read from.
TABLES = RULES["weight_surface"].tables


def suggestion(study: Study) -> str:
    """Lines on which arm to train next, or why nothing is suggested.

    Raises
    ------
    StudyError
        If the study has too few arms for a surface, if its tables are missing, or if the config has changed since.
    """
    if study.surface_arms is None:
        raise StudyError(
            f"suggest: a surface over the weights needs the design {' or '.join(sorted(DESIGNS))}, two seeds, and arms "
            "that differ in their weights alone, none of them negative: 5 arms for two components, 8 for three, 12 for "
            "four"
        )
    folder = study.description.with_name("tables")
    files = [folder / file_of(table) for table in TABLES]
    if not all(file.is_file() for file in files):
        raise StudyError(f"suggest: {folder} has no surface yet; finish the study first (`snakemake`)")
    if study.described.get("digest") != study.digest:
        raise StudyError("suggest: the study has changed since its tables were made; run `snakemake` first")
    return suggestion_text(read_study(study.description), *(read_table(file) for file in files))


def suggestion_text(study: StudyFile, surface: pd.DataFrame, points: pd.DataFrame, check: pd.DataFrame) -> str:
    """The suggestion as text; `surface`, `points` and `check` are the tables of `TABLES`."""
    if surface.empty:
        return "suggest: the surface has no arms with results of two seeds; nothing is suggested"
    limits = limits_of_primary(study)
    arms = surface[surface["arm"].notna()]
    others = [arm for arm in study.arm_names if arm not in set(arms["arm"])]
    left_out = [f"Left out, because they differ in more than fixed weights: {', '.join(others)}."] if others else []
    lines = [
        f"{study.name}: {about_metric(study)}, a surface over {len(arms)} arms",
        errors(check, study),
        *picks(study, check),
        *left_out,
        verdict(check),
    ]
    if is_ahead(check) and surface["improvement"].isna().all():
        lines.append("The arms lie too close together: no point of the map is between them.")
    elif is_ahead(check):
        improving, unknown = choices(surface, points)
        gain = number(improving.improvement, limits)
        lines += ["", f"Next arm by expected improvement ({gain} over the best arm):", *arm_lines(improving, study)]
        lines += ["", "Next arm to learn most about the surface (widest interval):", *arm_lines(unknown, study)]
    return "\n".join(lines).replace("\u00a0", " ")


def picks(study: StudyFile, check: pd.DataFrame) -> list[str]:
    """Which arm each rule would have picked, and how far that arm is behind the best one."""
    limits, picked = limits_of_primary(study), []
    for _, row in check[check["regret"].notna()].iterrows():
        arm = row["picked"] if isinstance(row["picked"], str) else "any arm"
        picked.append(f"{NAMES[row['rule']]} {arm} ({number(row['regret'], limits)})")
    return [f"Arm picked from the others' results, and how far it is behind the best: {'; '.join(picked)}."]


def arm_lines(choice: Choice, study: StudyFile) -> list[str]:
    """Lines with the prediction for an arm, and with the arm in YAML."""
    limits = limits_of_primary(study)
    low, high = number(choice.low, limits), number(choice.high, limits)
    total = median(sum(arm.weights.values()) for arm in study.arms if arm.name != study.control)
    weights = ", ".join(f"{name}: {weight:g}" for name, weight in choice.weights(total).items())
    name = next(free for n in range(1, 10**6) if (free := f"suggested_{n}") not in study.arm_names)
    return [
        f"  predicted {number(choice.estimate, limits)}; with {choice.seeds} seeds it would show {low} to {high} "
        f"({100 * study.confidence:g} %)",
        "  arms:",
        f"    {'arms' if study.design == 'list' else 'extra'}:",
        f"      {name}:",
        f"        weights: {{{weights}}}",
    ]
