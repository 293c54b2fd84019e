"""Tables of gradients, from what all runs of a study measured of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.gradients.measured_tables import measured_tables
from reward_ablation.analysis.gradients.similarity_by_arm import similarity_by_arm
from reward_ablation.analysis.gradients.similarity_by_step import (
    GRADIENT_COLUMNS,
    LATER_COLUMNS,
    similarity_by_step,
)
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined


def gradient_tables(study: StudyFile, root: Path, rewards_by_step: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tables of gradients: similarities by step and arm, and what the stored Gram matrices say beyond them.

    Parameters
    ----------
    rewards_by_step : DataFrame
        The table: what training did to the components, against which predictions are checked.
    """
    similarities, measured = [], {}
    for run in study.runs:
        gradients = read_parquet(root / run.folder / "gradients.parquet", GRADIENT_COLUMNS, LATER_COLUMNS)
        measured[run.folder] = sorted(gradients["step"].unique().tolist())
        similarities.append(similarity_by_step(gradients).assign(arm=run.arm, seed=run.seed))
    by_step = joined("similarity_by_step", similarities)
    by_arm = [
        similarity_by_arm(by_step[by_step["arm"] == arm], arm, study.bootstrap, study.confidence)
        for arm in study.arm_names
    ]
    return {
        "similarity_by_step": by_step,
        "similarity_by_arm": joined("similarity_by_arm", by_arm),
        **measured_tables(study, root, measured, rewards_by_step),
    }
