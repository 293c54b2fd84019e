"""Numbers as words have them."""

from __future__ import annotations

import math

from reward_ablation.analysis.statistics.limits import COUNT, Limits


def number(value: float, limits: Limits) -> str:
    """Counts to one place, such as tokens; others to three."""
    if not math.isfinite(value):
        return "not known"
    return f"{value:.{1 if limits == COUNT else 3}f}".replace("-", "−")


def p_value(p: float) -> str:
    """A p-value to three places; smaller ones by their bound."""
    return "no test" if not math.isfinite(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def counted(count: int, noun: str) -> str:
    """Such as `1 seed` and `3 seeds`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
