"""How much a completion differs from the rest of its group."""

from __future__ import annotations

from typing import Any

from pydantic import PositiveInt

from reward_ablation.rewards.completions import Completion
from reward_ablation.rewards.groups import rows_of_groups


def diversity(
    completions: list[Completion],
    completion_ids: list[list[int]],
    problem_id: list[str],
    *,
    ngram_size: PositiveInt = 3,
    **columns: Any,
) -> list[float | None]:
    """1 - mean similarity to the other completions of the group: 0 where all are the same, 1 where none shares an n-gram.

    The similarity of two completions is the number of n-grams of tokens that both have, divided by the number that
    either has (Jaccard). It is 1 if both have none. The only completion of a group scores 0.

    Parameters
    ----------
    ngram_size : int
        Number of tokens in an n-gram. A completion with fewer tokens counts as one n-gram.

    Notes
    -----
    Sources: the resemblance of two texts by their n-grams is from Broder 1997, "On the resemblance and containment of
    documents". Diversity as the mean dissimilarity of a set's pairs is from Tevet and Berant 2021, arXiv 2004.02990;
    here each completion has the mean of its own pairs. A reward for diversity alone is a reward for random text.
    """
    scores: list[float | None] = [0.0] * len(completion_ids)
    for rows in rows_of_groups(problem_id):
        ngrams = [_ngrams(completion_ids[row], ngram_size) for row in rows]
        for place, row in enumerate(rows):
            others = ngrams[:place] + ngrams[place + 1 :]
            if others:
                scores[row] = 1 - sum(_similarity(ngrams[place], other) for other in others) / len(others)
    return scores


def _ngrams(ids: list[int], size: int) -> frozenset[tuple[int, ...]]:
    return frozenset(tuple(ids[start : start + size]) for start in range(max(1, len(ids) - size + 1)))


def _similarity(first: frozenset, second: frozenset) -> float:
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)
