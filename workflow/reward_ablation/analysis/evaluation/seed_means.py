"""Means of all arms by seed, from which the intervals of each arm borrow."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile

#: Seed means of one data set by mode.
SeedMeansByMode = dict[str, SeedMeans]


def seed_means(rows: pd.DataFrame, study: StudyFile) -> SeedMeansByMode:
    """Seed means of all arms by mode.

    Parameters
    ----------
    rows : DataFrame
        Rows of `evaluation_of_runs` for the runs of one data set, and of one step where there are several. Rows without
        a seed, which are those of the base model, are left out.
    """
    trained = rows[rows["seed"].notna()]
    return {str(mode): _of_mode(of_mode, study) for mode, of_mode in trained.groupby("mode", sort=False)}


def _of_mode(rows: pd.DataFrame, study: StudyFile) -> SeedMeans:
    metrics, seeds = list(rows["metric"].unique()), sorted(map(int, rows["seed"].unique()))
    values = np.full((len(metrics), len(study.arms), len(seeds)), np.nan)
    axes = {"metric": metrics, "arm": study.arm_names, "seed": seeds}
    places = [rows[name].map({label: place for place, label in enumerate(of)}) for name, of in axes.items()]
    values[tuple(place.to_numpy(dtype=int) for place in places)] = rows["value"]
    of_study = metrics_of_study(study)
    limits = [of_study.limits(metric) for metric in metrics]
    lends = study.seed_variance == "moderated"
    return SeedMeans(study.arm_names, seeds, values, limits, int(rows["questions"].max()), lends)
