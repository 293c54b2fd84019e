"""A control: the same score for every completion."""

from __future__ import annotations

from typing import Any

from pydantic import FiniteFloat

from reward_ablation.rewards.completions import Completion


def constant(completions: list[Completion], *, value: FiniteFloat = 1.0, **columns: Any) -> list[float | None]:
    """`value` for every completion: no advantage and no gradient, whatever its weight.

    Parameters
    ----------
    completions : list of str or of messages
    value : float

    Returns
    -------
    list of float, each `value`

    Notes
    -----
    Source: this workflow. What an arm with it shows against one without it is what the workflow itself does.
    """
    return [float(value)] * len(completions)
