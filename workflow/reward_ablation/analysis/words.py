"""Numbers as sentences and labels have them: estimates with intervals, p-values, and counts with nouns.

The report, the page of claims, figures and the notes of imports call it, so that all write the same number alike.
"""

from __future__ import annotations

import math
from typing import Any

from reward_ablation.analysis.statistics.limits import COUNT, ROUNDING, Limits

#: Most decimal places. What needs more is a rounding error, and gets three.
MOST_PLACES = 12


def number(value: float, limits: Limits) -> str:
    """One decimal place for counts, such as tokens; three if the range is 1 or wider, as of shares; else `_places`."""
    return numbers(limits, value)[0]


def numbers(limits: Limits, *values: float) -> list[str]:
    """Numbers that are compared, such as an estimate and its interval, with equal decimal places."""
    places = _places(limits, [value for value in values if math.isfinite(value)])
    return [_written(value, places, _may_be_small(limits)) for value in values]


def _may_be_small(limits: Limits) -> bool:
    """Whether small values get more places. Else the sign of a rounded zero stays: it says which side of 0 is meant."""
    return limits != COUNT and not (limits.finite and limits.high - limits.low >= 1)


def _places(limits: Limits, known: list[float]) -> int:
    """Decimal places, for counts 1: two digits of the numbers' differences, or else of their size; at least three."""
    if limits == COUNT:
        return 1
    size, apart = (max(map(abs, known)), max(known) - min(known)) if known else (0.0, 0.0)
    if apart > ROUNDING * size:
        size = apart
    places = 1 - math.floor(math.log10(size)) if size and _may_be_small(limits) else 3
    return places if 3 <= places <= MOST_PLACES else 3


def _written(value: float, places: int, unsigned_zero: bool) -> str:
    if not math.isfinite(value):
        return "not known"
    return f"{exact(value):{'z' if unsigned_zero else ''}.{places}f}".replace("-", "−")


def exact(value: float) -> float:
    """The number without the rounding error that would decide how a half is rounded."""
    return round(value, MOST_PLACES)


def with_interval(row: Any, limits: Limits) -> str:
    """An estimate with its interval, such as `0.250 [0.200, 0.300]`."""
    estimate, low, high = numbers(limits, *(row[name] for name in ("estimate", "low", "high")))
    return f"{estimate} [{low}, {high}]"


def p_value(p: float, level: float) -> str:
    """A p-value with three decimal places, or `< 0.001`; up to nine where it would look equal to the test's `level`."""
    if not math.isfinite(p):
        return "no test"
    places = next((places for places in range(3, 9) if p == level or round(p, places) != round(level, places)), 9)
    return "< 0.001" if p < 0.001 and places == 3 else f"{p:.{places}f}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as `1 seed` and `3 seeds`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def from_to(fewest: int, most: int, noun: str) -> str:
    """Two counts with a noun: `1 seed`, `3 seeds`, `2 to 5 seeds`."""
    return counted(most, noun) if fewest == most else f"{fewest:,} to {counted(most, noun)}"
