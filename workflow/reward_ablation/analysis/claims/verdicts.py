"""When a claim is supported, contradicted, or left open."""

from __future__ import annotations

import math
from typing import Literal

from reward_ablation.analysis.statistics.estimates import Distribution, p_values
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.study.claims import Claim

Verdict = Literal["supported", "contradicted", "undecided"]


def verdict(claim: Claim, low: float, high: float, p_holm: float, confidence: float) -> Verdict:
    """The verdict on a claim, from the interval of its difference and the test.

    A claim is decided where the interval lies wholly inside or wholly outside of what is claimed. This must also hold
    after Holm's correction for the number of claims: `p_holm`, Holm's p-value of `p_of_ends`, must be below one minus
    the confidence. `low` and `high` are in the metric's units.
    """
    if not p_holm < level_of(confidence):
        return "undecided"
    claimed_low, claimed_high = claimed(claim)
    if claimed_low < low and high < claimed_high:
        return "supported"
    return "contradicted" if high < claimed_low or claimed_high < low else "undecided"


def claimed(claim: Claim) -> tuple[float, float]:
    """Ends of the open interval that the difference is claimed to lie in; infinite where no end is claimed."""
    match claim.direction:
        case "higher":
            return claim.margin, math.inf
        case "lower":
            return -math.inf, -claim.margin
        case "same":
            return -claim.margin, claim.margin


def p_of_ends(claim: Claim, difference: Distribution, metric: int) -> float:
    """One minus the confidence at which the interval of a difference would just reach an end of what is claimed.

    This is the two-sided p-value of the hypothesis that the difference is at that end. Of two ends the larger p-value
    counts, which belongs to the nearer end. For a difference between the ends this is twice the p-value of two
    one-sided tests (Schuirmann 1987): here the interval at the full confidence must lie inside, there the shorter
    interval at twice the level. `difference` is of all metrics, and `metric` is the place of the claim's metric among
    them.
    """
    return max(float(p_values(difference, end)[metric]) for end in claimed(claim) if math.isfinite(end))
