"""Components that compare the completions of a group."""

import pytest

from reward_ablation.rewards.components.diversity import diversity
from reward_ablation.rewards.components.majority import majority
from reward_ablation.rewards.components.relative_length import relative_length


def boxed(*answers):
    return ["no answer" if answer is None else rf"so \boxed{{{answer}}}" for answer in answers]


@pytest.mark.parametrize(
    ("answers", "scores"),
    [
        (["0.5", r"\frac{1}{2}", "3", "1/2", "3"], [1, 1, 0, 1, 0]),  # one number in three forms
        (["1,000", "1000", "x + 1", "x+1", "x+1"], [0, 0, 1, 1, 1]),
        (["1", "2", "1", "2", "3"], [1, 1, 1, 1, 0]),  # a tie: both are most frequent
        (["5", None, None], [1, 0, 0]),  # no answer has no vote
        ([None, None], [0, 0]),
        (["{" * 30 + "}" * 30, "{" * 30 + "}" * 30, "5"], [0, 0, 1]),  # cannot be read
        (["a" * 400, "a" * 400, "5"], [1, 1, 0]),
    ],
)
def test_majority(answers, scores):
    assert majority(boxed(*answers), ["p"] * len(answers)) == scores
    hashed = ["none" if answer is None else f"#### {answer}" for answer in answers]
    assert majority([*hashed, r"\boxed{2}"], ["p"] * (len(answers) + 1), answer_format="hash") == [*scores, 0]


def test_groups_are_told_apart_by_their_problem():
    assert majority(boxed("1", "2", "1", "2", "2"), ["p", "q", "p", "q", "p"]) == [1, 1, 1, 1, 0]
    ids = [[1], [1] * 3, [1] * 5, [1] * 9]
    assert relative_length(["x"] * 4, ids, ["p", "q", "p", "q"]) == [0.5, 0.5, -0.5, -0.5]
    assert diversity(["x"] * 4, [[1, 2, 3], [4, 5, 6], [1, 2, 3], [7, 8, 9]], ["p", "q", "p", "q"]) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("component", "ids", "scores"),
    [
        (relative_length, [[1] * 100, [], [1] * 25], [-0.5, 0.5, 0.25]),  # 0.5 - length / 100
        (relative_length, [[1] * 7, [1] * 7], [0.0, 0.0]),
        (diversity, [[1, 2, 3], [4, 5]], [1, 1]),
        # bigrams {12, 23}, {12, 24}, {78}: the first two share one of three
        (diversity, [[1, 2, 3], [1, 2, 4], [7, 8]], [pytest.approx(5 / 6), pytest.approx(5 / 6), 1]),
        (diversity, [[], []], [0, 0]),
        (diversity, [[1], [1], [2]], [0.5, 0.5, 1]),  # shorter than an n-gram
        (diversity, [[1, 2, 3]], [0]),
    ],
)
def test_lengths_and_tokens(component, ids, scores):
    more = {"ngram_size": 2} if component is diversity else {}
    assert component(["x"] * len(ids), ids, ["p"] * len(ids), **more) == scores


def test_a_large_group_of_long_completions_ends():
    """64 completions of 16,384 tokens, different and all the same."""
    for factor in (1, 0):
        ids = [[(place * factor + k * k) % 50_000 for k in range(16_384)] for place in range(64)]
        assert all(0 <= score <= 1 for score in diversity(["x"] * 64, ids, ["p"] * 64))
    texts = boxed(*("1" * (place + 500) for place in range(64)))
    assert majority(texts, ["p"] * 64) == [1] * 64
