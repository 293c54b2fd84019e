"""Tables of gradients, from what all runs of a study measured of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.gradients.similarity_by_arm import similarity_by_arm
from reward_ablation.analysis.gradients.similarity_by_step import GRADIENT_COLUMNS, similarity_by_step
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined


def gradient_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of gradients: similarity_by_step, similarity_by_arm."""
    similarities = []
    for run in study.runs:
        gradients = read_parquet(root / run.folder / "gradients.parquet", GRADIENT_COLUMNS)
        similarities.append(similarity_by_step(gradients).assign(arm=run.arm, seed=run.seed))
    by_step = joined("similarity_by_step", similarities)
    by_arm = [
        similarity_by_arm(by_step[by_step["arm"] == arm], arm, study.bootstrap, study.confidence)
        for arm in study.arm_names
    ]
    return {"similarity_by_step": by_step, "similarity_by_arm": joined("similarity_by_arm", by_arm)}
