"""DAPO's soft overlong punishment: below 0 for completions near the length limit."""

from __future__ import annotations

from typing import Any

from pydantic import NonNegativeInt, PositiveInt
from trl.rewards import get_soft_overlong_punishment  # takes 0.2 s, without torch

from reward_ablation.rewards.completions import Completion
from reward_ablation.system.errors import StudyError


def soft_overlong(
    completions: list[Completion],
    completion_ids: list[list[int]],
    *,
    max_completion_len: PositiveInt,
    soft_punish_cache: NonNegativeInt,
    **columns: Any,
) -> list[float | None]:
    """0 up to max_completion_len - soft_punish_cache tokens, from there down to -1 at max_completion_len, then -1.

    Parameters
    ----------
    max_completion_len : int
        L_max. No completion is longer than the training setting `max_completion_length`: with a larger value here, no
        completion scores -1.
    soft_punish_cache : int
        L_cache, the number of tokens over which the punishment grows. With 0 the score jumps from 0 to -1.

    Raises
    ------
    StudyError
        `soft_punish_cache` is above `max_completion_len`: an empty completion would be punished.

    Notes
    -----
    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, equation 13; computed by TRL's ``get_soft_overlong_punishment``.
    """
    if soft_punish_cache > max_completion_len:
        raise StudyError(
            f"soft_punish_cache: {soft_punish_cache} is above max_completion_len, which is {max_completion_len}"
        )
    return get_soft_overlong_punishment(max_completion_len, soft_punish_cache)(completion_ids)
