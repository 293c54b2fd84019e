"""Made-up measurements of arms on a known surface."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from reward_ablation.analysis.statistics.limits import SHARE, UNLIMITED, Limits
from reward_ablation.design.surface.model import MeasuredArms, Scale
from reward_ablation.design.surface.tables import compositions

QUESTIONS = 200
FIFTEEN = compositions(4, 3) / 4


def measured(
    means: np.ndarray, shares: np.ndarray, spread: float = 0.02, seeds: int = 2, limits: Limits = SHARE
) -> MeasuredArms:
    """Arms with these means, and equal seeds."""
    size = len(means)
    names = [f"arm_{number}" for number in range(size)]
    spreads = np.full(size, spread)
    return MeasuredArms(names, shares, means, np.full(size, seeds), spreads, spread, Scale(limits, QUESTIONS))


def hill(shares: np.ndarray) -> np.ndarray:
    """An accuracy that is highest, 0.82, at shares of 0.55, 0.3 and 0.15."""
    return expit(-0.5 + 2 * np.exp(-np.square(shares - [0.55, 0.3, 0.15]).sum(axis=1) / (2 * 0.3**2)))


def plain(values: list[float], places: list[float], spread: float) -> MeasuredArms:
    """Arms of two components and a metric without limits; one seed each."""
    shares = np.column_stack([places, 1 - np.array(places)])
    return measured(np.array(values), shares, spread, seeds=1, limits=UNLIMITED)
