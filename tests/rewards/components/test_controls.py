"""The controls: a constant, and noise that repeats."""

import random as generator

from reward_ablation.rewards.components.constant import constant
from reward_ablation.rewards.components.random import random


def test_constant():
    assert constant(["a", "b"], value=0.5, answer=["1", "2"]) == [0.5, 0.5]


def test_random_repeats_and_moves_no_generator():
    state = generator.getstate()
    scores = random(["a", "b", "a", "a"], ["p", "p", "p", "q"], seed=1)
    assert generator.getstate() == state
    assert scores[0] == 0.9761793527944991  # another number would change each run with this component
    assert scores[0] == scores[2]
    assert len({*scores, *random(["a"], ["p"], seed=2)}) == 4  # seed, problem and text each count
    assert random(["\ud800"], ["p"]) == random(["\ud800"], ["p"])


def test_random_is_uniform():
    """Mean 1/2 with a standard error of 0.0046 for 4,000 uniform draws."""
    scores = random([str(n) for n in range(4000)], ["p"] * 4000)
    assert all(0 <= score < 1 for score in scores)
    assert abs(sum(scores) / 4000 - 0.5) < 0.02
