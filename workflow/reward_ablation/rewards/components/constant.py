"""A control: the same score for every completion.

A user adds it to an arm to see what the workflow itself changes.
"""

from __future__ import annotations

from typing import Any

from pydantic import FiniteFloat

from reward_ablation.rewards.completions import Completion


def constant(completions: list[Completion], *, value: FiniteFloat = 1.0, **columns: Any) -> list[float | None]:
    """`value` for every completion: no advantage and no gradient, whatever the component's weight.

    Notes
    -----
    Source: this workflow. An arm with this component differs from an arm without it by an effect of the workflow only.
    """
    return [float(value)] * len(completions)
