"""What a look says of each contrast that is still open: different, equivalent, or to go on.

Holm's correction over the contrasts of group-sequential tests (Maurer and Bretz, "Multiple testing in group sequential
trials using graphical approaches", Statistics in Biopharmaceutical Research 2013; Ye, Li, Liu and Yao, "A
group-sequential Holm procedure with multiple primary endpoints", Statistics in Medicine 2013): a contrast that is
decided leaves its part of the error to the open ones, from this look on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.config.sections.seeds import Spending
from reward_ablation.design.group_sequential import SPENDING, boundaries, information_fractions, level_reached


class Plan(NamedTuple):
    """When a sequential study looks, and with which error.

    Attributes
    ----------
    looks : tuple of int
        Numbers of seeds, ascending.
    stop : str
        The spending function.
    level : float
        Probability that any contrast is called different although no such contrast differs, over all looks.
    """

    looks: tuple[int, ...]
    stop: Spending
    level: float

    @property
    def fractions(self) -> tuple[float, ...]:
        """Information fractions of the looks."""
        return information_fractions(self.looks)

    def boundary(self, look: int, undecided: int) -> float:
        """The p-value at or below which the first of so many contrasts is called different."""
        return boundaries(round(self.level / undecided, 9), self.fractions, self.stop)[look]

    def confidence(self, look: int) -> float:
        """Confidence of the interval at a look by which the intervals of all looks together hold 1 - `level`.

        These are repeated confidence intervals (Jennison and Turnbull 2000, chapter 9): they are right whenever and
        for whatever reason a study stops. As in the tables they are not corrected for the number of contrasts.
        """
        return 1 - boundaries(self.level, self.fractions, self.stop)[look]


def corrected(p: np.ndarray, look: int, plan: Plan, equivalent: int) -> np.ndarray:
    """p-values of the open contrasts at a look, corrected for all looks and for the contrasts that are not different.

    A contrast is different where its corrected p-value is below `plan.level`.

    Parameters
    ----------
    p : (open contrasts,) array
        Of the estimator, at this look.
    equivalent : int
        Contrasts that closed as equivalent: they leave no error to the others.
    """
    over_looks = level_reached(p, look, plan.fractions, plan.stop)
    return holm(np.append(over_looks, np.ones(equivalent)))[: len(p)]


def error_left(plan: Plan, look: int) -> float:
    """The part of the error that later looks may still spend, per contrast at the whole level."""
    return plan.level - SPENDING[plan.stop](plan.level, plan.fractions[look])


def is_equivalent(low: float, high: float, margin: float | None) -> bool:
    """Whether a repeated interval lies within the study's equivalence margin."""
    return margin is not None and -margin < low and high < margin
