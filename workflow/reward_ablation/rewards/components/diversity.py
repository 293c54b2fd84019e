"""The difference of a completion from the rest of its group."""

from __future__ import annotations

from itertools import combinations
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
    """1 - mean similarity to the other completions of the group.

    0 where all completions have the same n-grams, 1 where this one shares none. The similarity of two completions is
    the number of n-grams of tokens that both have, divided by the number that either has (Jaccard). The only completion
    of a group scores 0.

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
        numbers: dict[tuple[int, ...], int] = {}
        ngrams = [_ngrams(completion_ids[row], ngram_size, numbers) for row in rows]
        similarity = [0.0] * len(rows)
        for one, other in combinations(range(len(rows)), 2):
            shared = len(ngrams[one] & ngrams[other])
            jaccard = shared / (len(ngrams[one]) + len(ngrams[other]) - shared)
            similarity[one] += jaccard
            similarity[other] += jaccard
        for row, total in zip(rows, similarity, strict=True):
            scores[row] = 1 - total / (len(rows) - 1) if len(rows) > 1 else 0.0
    return scores


def _ngrams(ids: list[int], size: int, numbers: dict[tuple[int, ...], int]) -> set[int]:
    """The n-grams of a completion by their `numbers` in the group: sets of tuples would take ten times as long."""
    ngrams = (tuple(ids[start : start + size]) for start in range(max(1, len(ids) - size + 1)))
    return {numbers.setdefault(ngram, len(numbers)) for ngram in ngrams}
