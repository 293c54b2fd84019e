"""Length of a completion in tokens, against a target."""

from __future__ import annotations

from typing import Any

from pydantic import PositiveFloat

from reward_ablation.rewards.completions import Completion


def token_length(
    completions: list[Completion],
    completion_ids: list[list[int]],
    *,
    target: PositiveFloat,
    width: PositiveFloat,
    **columns: Any,
) -> list[float | None]:
    """``max(0, 1 - |tokens - target| / width)``: 1 at the target, falling on both sides to 0 at target ± width.

    Parameters
    ----------
    target : float
        Length with the best score, in tokens, above 0.
    width : float
        Distance from the target at which the score reaches 0, in tokens, above 0.

    Notes
    -----
    Source: the length reward of rldynamics (`character_length`), here in tokens and with a width that can be set.
    """
    return [max(0.0, 1.0 - abs(len(ids) - target) / width) for ids in completion_ids]
