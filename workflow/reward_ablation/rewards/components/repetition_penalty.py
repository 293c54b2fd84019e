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
    completions : list of str or of messages
    completion_ids : list of lists of int
        Token ids of each completion, without padding. Fewer than `ngram_size` score 0.
    ngram_size : int
        Tokens of an n-gram.
    max_penalty : float
        At most 0.

    Returns
    -------
    list of float in (max_penalty, 0]

    Notes
    -----
    Source: Yeo et al. 2025, arXiv 2502.03373, appendix C.2, in the form of one score a completion that
    Open-R1 and TRL give it (the paper places a penalty on each repeated token); computed by TRL's
    ``get_repetition_penalty_reward``.
    """
    return get_repetition_penalty_reward(ngram_size, max_penalty)(completion_ids)
