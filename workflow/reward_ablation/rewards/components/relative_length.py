"""Length of a completion in comparison with its group."""

from __future__ import annotations

from typing import Any

from reward_ablation.rewards.completions import Completion
from reward_ablation.rewards.groups import rows_of_groups


def relative_length(
    completions: list[Completion], completion_ids: list[list[int]], problem_id: list[str], **columns: Any
) -> list[float | None]:
    """``0.5 - (tokens - shortest) / (longest - shortest)`` in the group.

    0.5 for the group's shortest completion and -0.5 for its longest. 0 where all completions of the group have the same
    length, so also for the only completion of a group.

    Notes
    -----
    Source: the length penalty of Kimi k1.5, arXiv 2501.12599. There a wrong answer scores at most 0, so that a short
    wrong answer gains nothing. Here correctness is a component of its own, and the length counts for right and wrong
    answers alike; `cosine_length` depends on both.
    """
    scores: list[float | None] = [0.0] * len(completion_ids)
    for rows in rows_of_groups(problem_id):
        lengths = [len(completion_ids[row]) for row in rows]
        shortest, longest = min(lengths), max(lengths)
        for row, length in zip(rows, lengths, strict=True):
            scores[row] = 0.5 - (length - shortest) / (longest - shortest) if longest > shortest else 0.0
    return scores
