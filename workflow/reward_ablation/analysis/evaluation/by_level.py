"""Table differences_by_level: the primary differences by the level and by the subject of the questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from reward_ablation.analysis.evaluation.question_means import QuestionMeans
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.statistics.estimates import Distribution, holm, intervals, p_values, resampled_seeds
from reward_ablation.analysis.statistics.limits import UNLIMITED, Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile

#: Columns of the problems by which questions are grouped.
GROUPED_BY = ("level", "subject")

#: Fewest questions of a group.
FEWEST = 10

#: Question means of an arm by seed, from the data set and the arm.
Reader = Callable[[str, str], Mapping[int | None, QuestionMeans]]


class Group(NamedTuple):
    """Questions of one level or subject."""

    by: str
    name: str
    inside: np.ndarray
    """(questions,) array of bool."""


def differences_by_level(study: StudyFile, root: Path, read: Reader) -> list[pd.DataFrame]:
    """Parts of table differences_by_level, one for each primary contrast and column of `GROUPED_BY`.

    A group's own difference comes with an interval. Whether the difference depends on the level is tested by a group's
    difference minus that of all other questions, with Holm's p-values over the groups. There are no rows where the
    problems name fewer than two groups, nor without contrasts. Groups of few questions count among the others only.
    """
    primary = study.primary
    if primary.dataset not in study.datasets or not primary.contrasts:
        return []
    problems = next(iter(read(primary.dataset, study.baseline).values()))[primary.mode].problems
    by_id = read_parquet(root / study.questions[primary.dataset], ["id", *GROUPED_BY]).set_index("id")
    arms: dict[str, dict[int | None, np.ndarray]] = {
        arm: {
            seed: means[primary.mode].of(primary.metric)
            for seed, means in sorted(read(primary.dataset, arm).items(), key=lambda of: str(of[0]))
        }
        for arm in study.arm_names
    }
    parts = []
    for by in GROUPED_BY:
        groups = groups_of(by, by_id[by].reindex(problems))
        for contrast in primary.contrasts if groups else []:
            parts.append(rows_of_groups(groups, contrast.arm, contrast.against, arms, study))
    return parts


def groups_of(by: str, values: pd.Series) -> list[Group]:
    """Groups of at least `FEWEST` questions by value, in ascending order; none if there are not two."""
    groups = [
        Group(by, f"{name:g}" if isinstance(name, float) else str(name), (values == name).to_numpy())
        for name in sorted(values.dropna().unique())
    ]
    groups = [group for group in groups if group.inside.sum() >= FEWEST]
    return groups if len(groups) > 1 else []


def rows_of_groups(
    groups: list[Group], arm: str, against: str, arms: dict[str, dict[int | None, np.ndarray]], study: StudyFile
) -> pd.DataFrame:
    """Rows of one contrast; `arms` has each arm's values by seed and question."""
    primary, parts = study.primary, []
    limits = metrics_of_study(study).limits(primary.metric)
    of_contrast = Limits(limits.low - limits.high, limits.high - limits.low) if limits.finite else UNLIMITED
    for group in groups:
        label = f"{primary.dataset}, {group.by} {group.name}"
        inside = {name: {seed: of[group.inside] for seed, of in seeds.items()} for name, seeds in arms.items()}
        own = difference(inside, arm, against, label, limits, study)
        apart = {name: minus_rest(seeds, group.inside) for name, seeds in arms.items()}
        rest = difference(apart, arm, against, primary.dataset, of_contrast, study)
        low, high = intervals(rest, study.confidence)
        of_rest = {"from_rest": rest.estimate, "from_rest_low": low, "from_rest_high": high, "p": p_values(rest)}
        columns: Columns = estimate_columns(own, [primary.metric], study.confidence)
        parts.append({**columns, **of_rest, "by": group.by, "group": group.name})
    rows = rows_of_parts(parts, arm=arm, baseline=against, dataset=primary.dataset, mode=primary.mode)
    return rows.assign(p_holm=holm(rows["p"].to_numpy()))


def minus_rest(seeds: Mapping[int | None, np.ndarray], inside: np.ndarray) -> dict[int | None, np.ndarray]:
    """Values whose mean over questions is a group's mean minus that of all other questions, in each seed.

    Each question deviates from the mean of its own part, over all seeds, by its share in this difference. So their
    variance is that of the difference: parts with other means do not add to it.
    """
    share = np.where(inside, 1 / inside.mean(), -1 / (~inside).mean())
    values = np.stack([*seeds.values()])
    middle = np.where(inside, values[:, inside].mean(), values[:, ~inside].mean())
    change = values[:, inside].mean() - values[:, ~inside].mean()
    return dict(zip(seeds, change + share * (values - middle), strict=True))


def difference(
    arms: dict[str, dict[int | None, np.ndarray]], arm: str, against: str, label: str, limits: Limits, study: StudyFile
) -> Distribution:
    """Distribution of the difference of two arms; the seeds of the other arms lend it a variance."""
    every = sorted({seed for seeds in arms.values() for seed in seeds if seed is not None})
    means = [[seeds[seed].mean() if seed in seeds else np.nan for seed in every] for seeds in arms.values()]
    questions = len(next(iter(arms[arm].values())))
    lends = study.seed_variance == "moderated"
    of_all = SeedMeans([*arms], every, np.array([means]), [limits], questions, lends)
    own, other = (answered(arms[name], label, study.primary.metric, limits, study.bootstrap) for name in (arm, against))
    return distribution_of_difference(own, other, arm, against, label, of_all)[0]


def answered(
    seeds: Mapping[int | None, np.ndarray], label: str, metric: str, limits: Limits, resamples: int
) -> Answered:
    """An arm's values of one metric by seed, with their resamples."""
    values = np.stack([*seeds.values()])[None]
    return Answered([metric], [*seeds], values, resampled_seeds(values, label, resamples), [limits])
