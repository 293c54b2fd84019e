"""How the tables compute intervals and tests."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reward_ablation.config.base import Section


class Statistics(Section):
    """How the tables compute intervals and tests. No run depends on it."""

    seed_variance: Literal["moderated", "per_arm"] = Field(
        "moderated", description="Estimate how much seeds differ with help of the other arms, or from each arm alone."
    )
    equivalence_margin: float | None = Field(
        None, gt=0, lt=1, description="Smallest difference of shares that matters; default: no test of equivalence."
    )
