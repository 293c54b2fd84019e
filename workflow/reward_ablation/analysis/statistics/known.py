"""Means and standard deviations of the known values; NaN stands for an unknown value."""

from __future__ import annotations

import numpy as np


def mean_of_known(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Mean of the values that are not NaN, along axes that are kept; NaN where there is none."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(axis=axis, keepdims=True) / known.sum(axis=axis, keepdims=True)


def deviation_of_known(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Standard deviation (n - 1) of the values that are not NaN, along axes that are kept; NaN with fewer than two."""
    known = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    variance = mean_of_known(np.square(values - mean_of_known(values, axis)), axis)
    return np.sqrt(variance * np.where(known > 1, known / np.maximum(known - 1, 1), np.nan))
