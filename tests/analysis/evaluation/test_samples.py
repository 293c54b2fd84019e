from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.evaluation.question_means import majority_right, pass_at
from reward_ablation.config.sections.questions import sizes


def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample():
    assert [sizes(samples) for samples in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]
    samples = [True, True, False, False, False]
    for size in (1, 2, 3, 5):
        expected = np.mean([any(subset) for subset in combinations(samples, size)])
        assert pass_at(np.array([2]), 5, size)[0] == pytest.approx(expected)
    assert pass_at(np.array([1]), 1000, 500)[0] == pytest.approx(0.5)  # it does not overflow


@pytest.mark.parametrize(
    ("answers", "right", "expected"),
    [
        (["7", "9", "9"], [True, False, False], 0.0),
        (["1/2", "0.5", "9", "9", "8"], [True, True, False, False, False], 0.5),  # right ones are one: 2, 2, 1
        (["7", "8", "9"], [True, False, False], 1 / 3),
        ([None, None, "7"], [False, False, True], 1.0),  # no answer, no vote
        ([None, None], [False, False], 0.0),
    ],
)
def test_majority(answers, right, expected):
    """Of a question, beside another one whose two answers are right, between its answers."""
    written = pd.factorize(np.array(["7", *answers, "7"], dtype=object))[0]
    question = np.array([1, *[0] * len(answers), 1])
    assert majority_right(question, written, np.array([True, *right, True])).tolist() == [pytest.approx(expected), 1.0]
