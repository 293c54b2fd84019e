"""A penalty for repeated n-grams of tokens."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PositiveInt
from trl.rewards import get_repetition_penalty_reward  # takes 0.2 s, without torch

from reward_ablation.rewards.completions import Completion


def repetition_penalty(
    completions: list[Completion],
    completion_ids: list[list[int]],
    *,
    ngram_size: PositiveInt = 3,
    max_penalty: Annotated[float, Field(le=0, allow_inf_nan=False)] = -1.0,
    **columns: Any,
) -> list[float | None]:
    """max_penalty · (1 - different n-grams / n-grams): 0 where none repeats, near `max_penalty` where all do.

    Parameters
    ----------
    ngram_size : int
        Number of tokens in an n-gram. A completion with fewer tokens scores 0.
    max_penalty : float
        Factor of the formula and lower limit of the score; at most 0.

    Notes
    -----
    Source: Yeo et al. 2025, arXiv 2502.03373, appendix C.2. The paper places a penalty on each repeated token; Open-R1
    and TRL give one score per completion. Computed by TRL's ``get_repetition_penalty_reward``.
    """
    return get_repetition_penalty_reward(ngram_size, max_penalty)(completion_ids)
