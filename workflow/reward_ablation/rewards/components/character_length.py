"""rldynamics' length reward: characters against a target.

The preset `rldynamics`, which repeats that system's study, has it.
"""

from __future__ import annotations

from typing import Any

from pydantic import PositiveFloat

from reward_ablation.rewards.completions import Completion, completion_texts


def character_length(
    completions: list[Completion], *, target: PositiveFloat = 800, **columns: Any
) -> list[float | None]:
    """``max(0, 1 - |characters / target - 1|)``: 1 at the target, 0 at no characters and from twice the target on.

    Parameters
    ----------
    target : float
        Length with the best score, in characters, above 0. `token_length` has a target in tokens.

    Notes
    -----
    Source: the length reward of rldynamics, exactly; 800 is its target.
    """
    return [max(0.0, 1.0 - abs(len(text) / target - 1.0)) for text in completion_texts(completions)]
