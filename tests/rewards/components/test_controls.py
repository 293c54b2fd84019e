"""The control: noise that repeats."""

import random as generator

from reward_ablation.rewards.components.random import random


def test_random_repeats_moves_no_generator_and_is_uniform():
    state = generator.getstate()
    scores = random(["a", "b", "a", "a"], ["p", "p", "p", "q"], seed=1)
    assert generator.getstate() == state
    assert scores[0] == 0.9761793527944991  # another number would change each run with this component
    assert scores[0] == scores[2]
    assert len({*scores, *random(["a"], ["p"], seed=2)}) == 4  # seed, problem and text each count
    many = random([str(n) for n in range(4000)], ["p"] * 4000)
    assert all(0 <= score < 1 for score in many)
    assert abs(sum(many) / 4000 - 0.5) < 0.02  # the standard error of the mean is 0.0046
