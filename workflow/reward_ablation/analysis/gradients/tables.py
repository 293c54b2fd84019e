"""Tables of gradients, from what all runs of a study measured of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.gradients.measured_tables import measured_tables
from reward_ablation.analysis.gradients.predictors import predictors
from reward_ablation.analysis.gradients.schemas import SCHEMAS
from reward_ablation.analysis.gradients.similarity_by_arm import similarity_by_arm
from reward_ablation.analysis.gradients.similarity_by_step import (
    GRADIENT_COLUMNS,
    LATER_COLUMNS,
    similarity_by_step,
)
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined


def gradient_tables(
    study: StudyFile, root: Path, rewards_by_step: pd.DataFrame, signals_by_step: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """Tables of gradients: similarities by step and arm, what the stored Gram matrices say beyond them, and predictors.

    The runs' records, rollouts and gradients are checked first.

    Parameters
    ----------
    rewards_by_step : DataFrame
        The table: what training did to the components, against which predictions are checked.
    signals_by_step : DataFrame
        The table: what rollouts say of each step, for the predictors.
    """
    read_runs(study, root, ["rollouts.parquet", "gradients.parquet"])
    similarities, measured = [], {}
    for run in study.runs:
        gradients = read_parquet(root / run.folder / "gradients.parquet", GRADIENT_COLUMNS, LATER_COLUMNS)
        measured[run.folder] = sorted(gradients["step"].unique().tolist())
        similarities.append(similarity_by_step(gradients).assign(arm=run.arm, seed=run.seed))
    by_step = joined(SCHEMAS["similarity_by_step"], similarities)
    by_arm = [
        similarity_by_arm(by_step[by_step["arm"] == arm], arm, study.bootstrap, study.confidence)
        for arm in study.arm_names
    ]
    measured_steps = measured_tables(study, root, measured, rewards_by_step)
    signals = pd.concat([signals_by_step, measured_steps["alignment_by_step"]], ignore_index=True)
    later = predictors(signals, study.arm_names, study.components, study.bootstrap, study.confidence)
    return {
        "similarity_by_step": by_step,
        "similarity_by_arm": joined(SCHEMAS["similarity_by_arm"], by_arm),
        **measured_steps,
        "predictors": joined(SCHEMAS["predictors"], [later]),
    }
