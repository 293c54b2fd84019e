"""How far the weights of a method that goes by earlier gradients are from those by the present ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.replay import SAME, method_of_arm, read_history, replay
from reward_ablation.study.run_spec import ArmSpec
from reward_ablation.system.errors import StudyError


def lag_cosine(folder: Path, spec: ArmSpec, log: pd.DataFrame) -> pd.Series:
    """Cosine of a run's weights to those that the Gram matrix of the same step would have given.

    A value in [-1, 1] for each row of the log, the same for all components of a step. A lag costs nothing where the
    cosine is 1. NaN where no weights are logged, the step was not measured, or the method's Gram matrix does not lag.
    NaN too for runs with several generations a step, which cannot be replayed. The matrix of the step itself has that
    step's noise: a low cosine may be noise rather than change.

    Parameters
    ----------
    folder : Path
        Of the finished run.
    log : DataFrame
        Its `weights.parquet`.
    """
    unknown = pd.Series(np.nan, log.index)
    asked = method_of_arm(spec)
    if asked.gram is None or asked.gram == SAME:
        return unknown
    try:
        history = read_history(folder)
    except StudyError:
        return unknown
    present = replay(history, replace(asked, gram=SAME)).weights
    places = [history.components.index(name) for name in asked.weights]
    weights = log["weight"].to_numpy(dtype=float)
    cosines = {
        step: _cosine(weights[(log["step"] == step).to_numpy()], present[step][places])
        for step in sorted(present.keys() & history.gradients.keys())
    }
    return log["step"].map(cosines).astype(float)


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.clip(one @ other / lengths, -1.0, 1.0)) if lengths > 0 else np.nan
