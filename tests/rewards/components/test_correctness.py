"""Correctness: what each verdict of the grader scores."""

import pytest

from reward_ablation.rewards.components.correctness import correctness


@pytest.mark.parametrize(
    ("completion", "gold", "answer_format", "score"),
    [
        ("#### 72", "72", "hash", 1.0),
        ("#### 71", "72", "hash", 0.0),
        ("72", "72", "hash", 0.0),  # not in the asked form
        (r"\boxed{9^{9^{9}}}", "72", "boxed", 0.0),  # no way out of the loss
        ("#### 72", "", "hash", None),  # without a gold there is no verdict
    ],
)
def test_correctness(completion, gold, answer_format, score):
    assert correctness([completion], [gold], answer_format=answer_format, problem_id=["p"]) == [score]
