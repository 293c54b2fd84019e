"""Weights that methods of combination gave the components, by step and over a whole run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.replay import SAME, method_of_arm, read_history, replay
from reward_ablation.analysis.gradients.seed_intervals import mean_of_last_axis, means_over_steps_and_seeds
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError

#: Most points along the steps of a run; in longer runs neighbouring steps are averaged.
MOST_STEPS = 500

#: Quantities in the table: columns of `weights.parquet` (`combination.of_run.SCHEMA`), and `lag_cosine`.
QUANTITIES = ("weight", "conflicts", "dead", "advantage_rms", "lag_cosine")

#: Ranges of these quantities, which their intervals stay in.
RANGES = {"conflicts": (0.0, 1.0), "dead": (0.0, 1.0), "advantage_rms": (0.0, np.inf), "lag_cosine": (-1.0, 1.0)}

#: What low and high are in rows of one step.
RANGE = "range of seeds"


def method_weights(weights: Mapping[int, pd.DataFrame], arm: str, confidence: float) -> pd.DataFrame:
    """Means over seeds of `QUANTITIES`: rows of single steps, then of the whole run (step null), by component.

    In rows of one step low and high are the lowest and the highest seed, null with one seed. In rows of the whole run
    they are an interval of the mean over steps, by Student's t over seeds, or over the steps of a single seed.
    Neighbouring steps are averaged beyond `MOST_STEPS`. `weights` has the runs' logs by seed, with their `lag_cosine`.
    """
    seeds = sorted(weights)
    components = list(dict.fromkeys(name for seed in seeds for name in weights[seed]["component"]))
    steps = np.unique(np.concatenate([weights[seed]["step"].to_numpy() for seed in seeds]))
    values = np.full((len(QUANTITIES), len(components), len(seeds), len(steps)), np.nan)
    for number, seed in enumerate(seeds):
        log = weights[seed]
        rows = log["component"].map(components.index).to_numpy(), np.searchsorted(steps, log["step"])
        for quantity, name in enumerate(QUANTITIES):
            values[quantity, rows[0], number, rows[1]] = log[name].to_numpy(dtype=float)
    of_steps = _by_step(values, steps, components)
    return pd.concat([of_steps, _whole_run(values, components, confidence)]).assign(arm=arm, seeds=len(seeds))


def _by_step(values: np.ndarray, steps: np.ndarray, components: list[str]) -> pd.DataFrame:
    width = -(-len(steps) // MOST_STEPS)
    edges = range(0, len(steps), width)
    points = np.stack([mean_of_last_axis(values[..., edge : edge + width]) for edge in edges], axis=-1)
    last = [steps[min(edge + width, len(steps)) - 1] for edge in edges]
    columns: dict[str, np.ndarray] = {
        "step": np.repeat(last, len(components)),
        "component": np.tile(components, len(last)),
    }
    for name, of_quantity in zip(QUANTITIES, points, strict=True):
        by_step = np.moveaxis(of_quantity, -1, 0)  # (T, K, S)
        unknown = np.isnan(by_step)
        ranged = (~unknown).sum(axis=-1) > 1
        columns[name] = mean_of_last_axis(by_step).ravel()
        columns[f"{name}_low"] = np.where(ranged, np.where(unknown, np.inf, by_step).min(axis=-1), np.nan).ravel()
        columns[f"{name}_high"] = np.where(ranged, np.where(unknown, -np.inf, by_step).max(axis=-1), np.nan).ravel()
    interval = RANGE if values.shape[2] > 1 else None
    return pd.DataFrame(columns).astype({"step": "Int64"}).assign(interval=interval)


def _whole_run(values: np.ndarray, components: list[str], confidence: float) -> pd.DataFrame:
    columns: dict[str, object] = {"component": components}
    for name, of_quantity in zip(QUANTITIES, values, strict=True):
        means = means_over_steps_and_seeds(of_quantity, confidence).clipped(*RANGES.get(name, (-np.inf, np.inf)))
        columns |= {name: means.estimate, f"{name}_low": means.low, f"{name}_high": means.high}
    return pd.DataFrame(columns).assign(step=pd.array([None] * len(components), dtype="Int64"), interval=means.interval)


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
