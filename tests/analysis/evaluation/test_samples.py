from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.evaluation.question_means import majority_right, pass_at
from reward_ablation.config.sections.questions import sizes


@pytest.mark.parametrize(("samples", "expected"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_sizes_are_powers_of_two_and_all(samples, expected):
    assert sizes(samples) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(size):
    samples = [True, True, False, False, False]
    expected = np.mean([any(subset) for subset in combinations(samples, size)])
    assert pass_at(np.array([2]), 5, size)[0] == pytest.approx(expected)


def test_pass_at_k_of_many_samples_does_not_overflow():
    assert pass_at(np.array([1]), 1000, 500)[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("answers", "right", "expected"),
    [
        (["7", "7", "9"], [True, True, False], 1.0),
        (["7", "9", "9"], [True, False, False], 0.0),
        (["1/2", "0.5", "9", "9", "8"], [True, True, False, False, False], 0.5),  # right ones are one: 2, 2, 1
        (["7", "8", "9"], [True, False, False], 1 / 3),
        ([None, None, "7"], [False, False, True], 1.0),  # no answer, no vote
        ([None, None, "9"], [False, False, False], 0.0),
        ([None, None], [False, False], 0.0),
    ],
)
def test_majority(answers, right, expected):
    written = pd.factorize(np.array(answers, dtype=object))[0]
    found = majority_right(np.zeros(len(answers), int), written, np.array(right))
    assert found.tolist() == [pytest.approx(expected)]


def test_majorities_of_several_questions_in_any_order():
    question = np.array([1, 0, 1, 0, 2])
    written = np.array([0, 1, 0, 2, -1])
    right = np.array([True, False, True, True, False])
    assert majority_right(question, written, right).tolist() == [0.5, 1.0, 0.0]
