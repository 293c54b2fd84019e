"""A control: the same score for every completion."""

from __future__ import annotations

from typing import Any

from pydantic import FiniteFloat

from reward_ablation.rewards.completions import Completion


def constant(completions: list[Completion], *, value: FiniteFloat = 1.0, **columns: Any) -> list[float | None]:
    """`value` for every completion: no advantage and no gradient, whatever its weight.

    Notes
    -----
    Source: this workflow. The difference between an arm with it and an arm without it is the workflow's own effect.
    """
    return [float(value)] * len(completions)
