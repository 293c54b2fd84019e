"""Decision of a look on each open contrast: different, equivalent, or still open.

The contrasts are group-sequential tests with Holm's correction (Maurer and Bretz, "Multiple testing in group sequential
trials using graphical approaches", Statistics in Biopharmaceutical Research 2013; Ye, Li, Liu and Yao, "A
group-sequential Holm procedure with multiple primary endpoints", Statistics in Medicine 2013). A contrast that is found
to be different leaves its part of the error to the open contrasts, from this look on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.config.sections.seeds import Spending
from reward_ablation.design.group_sequential import SPENDING, boundaries, information_fractions, level_reached


class Plan(NamedTuple):
    """Looks and error of a sequential study."""

    looks: tuple[int, ...]  # number of seeds at each look, ascending
    stop: Spending
    level: float  # probability that any look calls a contrast different that does not differ

    @property
    def fractions(self) -> tuple[float, ...]:
        """Information fractions of the looks."""
        return information_fractions(self.looks)

    def boundary(self, look: int, undecided: int) -> float:
        """The p-value at or below which the first of `undecided` contrasts is called different."""
        return boundaries(round(self.level / undecided, 9), self.fractions, self.stop)[look]

    def confidence(self, look: int) -> float:
        """Confidence of the interval at a look, such that the intervals of all looks together have 1 - `level`.

        These are repeated confidence intervals (Jennison and Turnbull 2000, chapter 9), which hold whenever and for
        whatever reason a study stops. As in the tables, they are not corrected for the number of contrasts.
        """
        return 1 - boundaries(self.level, self.fractions, self.stop)[look]


def corrected(p: np.ndarray, look: int, plan: Plan, equivalent: int) -> np.ndarray:
    """Correct the p-values of the open contrasts at a look for all looks, and for all contrasts not found different.

    A contrast is different if its corrected p-value is below `plan.level`. `p` has the uncorrected value of each open
    contrast, and `look` counts from 0. `equivalent` is the number of contrasts that were found equivalent. They leave
    no error to the others.
    """
    over_looks = level_reached(p, look, plan.fractions, plan.stop)
    return holm(np.append(over_looks, np.ones(equivalent)))[: len(p)]


def error_left(plan: Plan, look: int) -> float:
    """Error that the looks after `look` may still spend on a contrast that has the whole level."""
    return plan.level - SPENDING[plan.stop](plan.level, plan.fractions[look])


def is_equivalent(low: float, high: float, margin: float | None) -> bool:
    """Whether a repeated interval lies within the study's equivalence margin."""
    return margin is not None and -margin < low and high < margin
