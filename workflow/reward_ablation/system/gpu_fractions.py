"""The fractions of a GPU that a run may have."""

from __future__ import annotations

from fractions import Fraction

#: Numbers of runs that may share a GPU in equal parts.
RUNS_ON_A_GPU = range(2, 9)


def share_of(share: float) -> Fraction:
    """The exact share, such as 1/3 for 0.3333."""
    return Fraction(share).limit_denominator(RUNS_ON_A_GPU[-1])
