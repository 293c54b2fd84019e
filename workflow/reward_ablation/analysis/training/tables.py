"""Tables of training, from the rollouts of all runs of a study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.analysis.training.rewards_by_step import rewards_by_step


def training_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of rewards: rewards_by_step."""
    columns = ["step", "total", "tokens", "truncated", *(f"score_{name}" for name in study.components)]
    rewards = []
    for run in study.runs:
        rollouts = read_parquet(root / run.folder / "rollouts.parquet", columns)
        rewards.append(rewards_by_step(rollouts, study.components).assign(arm=run.arm, seed=run.seed))
    return {"rewards_by_step": joined("rewards_by_step", rewards)}
