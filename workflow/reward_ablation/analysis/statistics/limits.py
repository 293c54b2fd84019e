"""Limits of metrics, which decide intervals and the scale on which variances are compared.

`analysis.evaluation.metrics` gives each metric of a study its limits. The statistics, which know no study, planning,
figures and the report ask for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: A score may lie outside of its metric's range by this share of the range's larger end (or of 1, if that is larger),
#: as float32 rounds. A score within this share of the best score counts as the best.
ROUNDING = 1e-6


class Limits(NamedTuple):
    """Lowest and highest value of a metric; infinite where it has no such limit."""

    low: float
    high: float

    @property
    def finite(self) -> bool:
        """Whether the metric has both a lowest and a highest value, as a share has."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


SHARE, COUNT, UNLIMITED = Limits(0.0, 1.0), Limits(0.0, np.inf), Limits(-np.inf, np.inf)
