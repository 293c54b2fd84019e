"""How far weights that a method takes from earlier gradients are from those by the present gradients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.replay import SAME, method_of_arm, read_history, replay
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError


def lag_cosine(folder: Path, spec: ArmSpec, log: pd.DataFrame) -> pd.Series:
    """Cosine between a run's weights and those that the Gram matrix of the same step would have given.

    One value in [-1, 1] for each row of the log, the same for all components of a step. The lag makes no difference
    where the cosine is 1. NaN where no weights are logged, the step was not measured, or the method's Gram matrix does
    not lag. NaN too for runs with several generations a step, which cannot be replayed. The step's own matrix has the
    noise of that step: a low cosine may be noise rather than change. `folder` is that of a finished run, and
    `log` is its `weights.parquet`.
    """
    unknown = pd.Series(np.nan, log.index)
    method = method_of_arm(spec)
    if method.gram is None or method.gram == SAME:
        return unknown
    try:
        history = read_history(folder)
    except StudyError:
        return unknown
    present = replay(history, replace(method, gram=SAME)).weights
    columns = [history.components.index(name) for name in method.weights]
    weights = log["weight"].to_numpy(dtype=float)
    cosines = {
        step: _cosine(weights[(log["step"] == step).to_numpy()], present[step][columns])
        for step in sorted(present.keys() & history.gradients.keys())
    }
    return log["step"].map(cosines).astype(float)


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.clip(one @ other / lengths, -1.0, 1.0)) if lengths > 0 else np.nan
