"""Read the rollouts of several runs as one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.reading import read_parquets
from reward_ablation.analysis.study_file import StudyRun


def read_rollouts(runs: list[StudyRun], root: Path, columns: list[str]) -> pd.DataFrame:
    """Columns of the runs' rollouts, one run after the other, with the column seed; problem ids are categories."""
    files = [root / run.folder / "rollouts.parquet" for run in runs]
    rows, sizes = read_parquets(files, columns, coded=["problem_id"])
    return rows.assign(seed=np.repeat([run.seed for run in runs], sizes))
