"""Correctness scaled by length, along a cosine."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import FiniteFloat, PositiveInt

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.grading import grade_batch


def cosine_length(
    completions: list[Completion],
    answer: list[str],
    completion_ids: list[list[int]],
    *,
    max_len: PositiveInt,
    min_value_wrong: FiniteFloat = -1.0,
    max_value_wrong: FiniteFloat = -0.5,
    min_value_correct: FiniteFloat = 0.5,
    max_value_correct: FiniteFloat = 1.0,
    answer_format: Literal["boxed", "hash", "final", "tag", "last_number"] = "boxed",
    **columns: Any,
) -> list[float | None]:
    """A right answer scores more the shorter it is, a wrong answer scores more the longer it is.

    long + (short - long) · (1 + cos(π · min(1, tokens / max_len))) / 2, where (short, long) is (`max_value_correct`,
    `min_value_correct`) for a right answer, and (`min_value_wrong`, `max_value_wrong`) for a wrong one. An answer that
    is missing, cannot be read, or costs too much to compare is wrong.

    Parameters
    ----------
    max_len : int
        Number of tokens beyond which the score stays constant; usually the training setting `max_completion_length`.
    min_value_wrong, max_value_wrong : float
        Score of a wrong answer at length 0, and from `max_len` on.
    min_value_correct, max_value_correct : float
        Score of a right answer from `max_len` on, and at length 0.
    answer_format : str
        Where the answer stands in a completion; see `extraction.extract`.

    Notes
    -----
    Source: Yeo et al. 2025, arXiv 2502.03373, appendix C.1; names, defaults and values are those of TRL's
    ``get_cosine_scaled_reward``. TRL's function is not called: it compares answers inside the trainer's process, where
    a hostile answer can hang it. The paper also has a penalty at the length limit, which is left out here, as in TRL;
    `soft_overlong` gives such a penalty.
    """
    statuses = [grade.status for grade in grade_batch(completion_texts(completions), answer, answer_format)]
    ends = {"correct": (max_value_correct, min_value_correct), "error": None}
    return [
        _between(ends.get(status, (min_value_wrong, max_value_wrong)), len(ids) / max_len)
        for status, ids in zip(statuses, completion_ids, strict=True)
    ]


def _between(ends: tuple[float, float] | None, progress: float) -> float | None:
    """Value between the two ends, from the first to the second along half a cosine; None without ends."""
    if ends is None:
        return None
    short, long = ends
    return long + (short - long) * (1.0 + math.cos(math.pi * min(1.0, progress))) / 2
