"""Table differences_by_level: the primary differences by the level and by the subject of the questions.

`tables`, which the rule `tables_evaluation` runs, calls `differences_by_level`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import (
    Answered,
    Columns,
    distribution_of_difference,
    estimate_columns,
    rows_of_parts,
)
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.stored_answers import Reader
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.statistics.estimates import Distribution, holm, intervals, p_values, resampled_seeds
from reward_ablation.analysis.statistics.limits import UNLIMITED, Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.study.primary import Contrast

#: Columns of the problems by which questions are grouped.
GROUPED_BY = ("level", "subject")

#: Fewest questions of a group: a free choice where all arms have two seeds or more. A question's answers of one seed
#: have few values: without any effect, p < .05 came in 13 % of groups of 10 questions, and in 6 % of groups of 30.
FEWEST, FEWEST_OF_ONE_SEED = 10, 30
#: Most primary contrasts that have rows: a free choice.
MOST_CONTRASTS = 40

#: Values of an arm in the primary metric by seed, each (questions,).
Values = dict[int | None, np.ndarray]


class Group(NamedTuple):
    """Questions of one level or subject."""

    by: str
    name: str
    inside: np.ndarray
    """(questions,) array of bool."""


def differences_by_level(study: StudyFile, root: Path, read: Reader) -> list[pd.DataFrame]:
    """Parts of the table, one for each primary contrast and column of `GROUPED_BY` with two groups or more.

    The p-values, Holm's over the groups, are of a group's difference minus that of all other questions.
    """
    primary = study.primary
    if primary.dataset not in study.datasets or not primary.contrasts:
        return []
    first = next(iter(read(primary.dataset, study.evaluated_names[0]).values()))
    problems = first[primary.mode].problems
    by_id = read_parquet(root / study.questions[primary.dataset], ["id", *GROUPED_BY]).set_index("id")
    values = {by: by_id[by].reindex(problems) for by in GROUPED_BY}
    if not any(groups_of(by, values[by]) for by in GROUPED_BY):
        return []
    arms: dict[str, Values] = {
        arm: {seed: means[primary.mode].of(primary.metric) for seed, means in read(primary.dataset, arm).items()}
        for arm in study.arm_names
    }
    contrasts = [contrast for contrast in primary.contrasts if {contrast.arm, contrast.against} <= arms.keys()]
    if len(contrasts) > MOST_CONTRASTS:
        print(f"differences_by_level: the first {MOST_CONTRASTS} of {len(contrasts)} primary contrasts")
        contrasts = contrasts[:MOST_CONTRASTS]
    one_seed = any(len(arms[each.arm].keys() & arms[each.against].keys()) == 1 for each in contrasts)
    fewest = FEWEST_OF_ONE_SEED if one_seed else FEWEST
    parts = []
    for by in GROUPED_BY:
        rows = [of_group(group, contrasts, arms, study) for group in groups_of(by, values[by], fewest)]
        for number in range(len(contrasts) if rows else 0):  # a table for each contrast, a row for each group
            table = pd.concat([of_contrasts[number] for of_contrasts in rows], ignore_index=True)
            parts.append(table.assign(p_holm=holm(table["p"].to_numpy())))
    return parts


def groups_of(by: str, values: pd.Series, fewest: int = FEWEST) -> list[Group]:
    """Groups of at least `fewest` questions by value, in ascending order; none if there are not two."""
    groups = [
        Group(by, f"{name:g}" if isinstance(name, float) else str(name), (values == name).to_numpy())
        for name in sorted(values.dropna().unique())
    ]
    groups = [group for group in groups if group.inside.sum() >= fewest]
    return groups if len(groups) > 1 else []


def of_group(
    group: Group, contrasts: Sequence[Contrast], arms: dict[str, Values], study: StudyFile
) -> list[pd.DataFrame]:
    """The row of each contrast at one group's questions."""
    primary, inside = study.primary, group.inside
    limits = metrics_of_study(study).limits(primary.metric)
    of_contrast = Limits(limits.low - limits.high, limits.high - limits.low) if limits.finite else UNLIMITED
    of_inside = {arm: {seed: values[inside] for seed, values in seeds.items()} for arm, seeds in arms.items()}
    of_apart = {arm: minus_rest(seeds, inside) for arm, seeds in arms.items()}
    label, rows = f"{primary.dataset}, {group.by} {group.name}", []
    differences_inside = differences(of_inside, contrasts, label, limits, study)
    from_rest = differences(of_apart, contrasts, primary.dataset, of_contrast, study)
    for contrast, difference, rest in zip(contrasts, differences_inside, from_rest, strict=True):
        own_mean, other_mean = (np.mean([*arms[arm].values()], axis=0) for arm in (contrast.arm, contrast.against))
        rest = with_degrees_of_parts(rest, own_mean - other_mean, inside)
        low, high = intervals(rest, study.confidence)
        of_rest = {"from_rest": rest.estimate, "from_rest_low": low, "from_rest_high": high, "p": p_values(rest)}
        labels = {"arm": contrast.arm, "baseline": contrast.against, "by": group.by, "group": group.name}
        columns: Columns = estimate_columns(difference, [primary.metric], study.confidence) | of_rest | labels
        rows.append(rows_of_parts([columns], dataset=primary.dataset, mode=primary.mode))
    return rows


def minus_rest(seeds: Values, inside: np.ndarray) -> Values:
    """Values whose mean over questions is a group's mean minus that of all other questions, in each seed."""
    # A question counts by its deviation from the mean of its own side (group or rest) over all seeds, so that a
    # difference between the two sides' means adds no variance.
    share = np.where(inside, 1 / inside.mean(), -1 / (~inside).mean())
    values = np.stack([*seeds.values()])
    middle = np.where(inside, values[:, inside].mean(), values[:, ~inside].mean())
    change = values[:, inside].mean() - values[:, ~inside].mean()
    return dict(zip(seeds, change + share * (values - middle), strict=True))


def with_degrees_of_parts(apart: Distribution, difference: np.ndarray, inside: np.ndarray) -> Distribution:
    """A group's `difference` minus that of the rest, with Welch's degrees of freedom (Biometrika 1947)."""
    # The group's few questions decide the variance, and the many others must not lend it their degrees.
    parts = [difference[side] for side in (inside, ~inside)]
    degrees = np.array([len(part) - 1 for part in parts])
    squares = np.array([part.var(ddof=1) / len(part) for part in parts])
    welch = squares.sum() ** 2 / max((squares**2 / degrees).sum(), np.finfo(float).tiny)
    of_all = apart.spread.question_degrees
    varies = of_all == len(inside) - 1  # else all differences are equal (`doubt_of_equal_values`)
    of_parts = np.where(varies, max(welch, degrees.min()), of_all)
    return apart._replace(spread=apart.spread._replace(question_degrees=of_parts))


def differences(
    arms: Mapping[str, Values], contrasts: Sequence[Contrast], label: str, limits: Limits, study: StudyFile
) -> list[Distribution]:
    """Distributions of the contrasts; `label` names the questions, which all arms' resamples share."""
    lending = SeedMeans.of_questions(arms, limits, study.seed_variance == "moderated")
    answers = {}
    for arm in {name for contrast in contrasts for name in (contrast.arm, contrast.against)}:
        values = np.stack([*arms[arm].values()])[None]
        by_seed = resampled_seeds(values, label, study.bootstrap)
        answers[arm] = Answered([study.primary.metric], [*arms[arm]], values, by_seed, [limits])
    pairs = [(contrast.arm, contrast.against) for contrast in contrasts]
    return [distribution_of_difference(answers[a], answers[b], a, b, label, lending)[0] for a, b in pairs]
