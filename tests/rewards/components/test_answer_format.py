"""The form of an answer, whatever its content."""

import pytest

from reward_ablation.rewards.components.answer_format import answer_format


@pytest.mark.parametrize(
    ("completion", "format", "score"),
    [
        ("Sum.\n#### 72", "hash", 1.0),
        ("Sum.\n#### 72\n\n", "hash", 1.0),
        ("Sum.\n#### wrong", "hash", 1.0),  # only the form counts
        ("#### 1\n#### 72", "hash", 0.0),  # twice
        ("#### 72\nNo, wait", "hash", 0.0),  # not last
        ("####", "hash", 0.0),
        (r"So $\boxed{72}$.", "boxed", 1.0),
        (r"\[ \boxed{72} \]" + "\n", "boxed", 1.0),
        (r"**\boxed{\frac{1}{2}}**", "boxed", 1.0),
        (r"\boxed 2$.", "boxed", 1.0),
        (r"最大值为 $\boxed{5}$。", "boxed", 1.0),  # the Chinese stop
        (r"最大值为 $\boxed{5}$。对吗", "boxed", 0.0),
        (r"\boxed{1} or \boxed{72}", "boxed", 0.0),
        (r"\boxed{72} eggs", "boxed", 0.0),
        (r"\boxed{72", "boxed", 0.0),
        (r"\boxed{}", "boxed", 0.0),
        (r"<think>\boxed{1}</think>\boxed{72}", "boxed", 1.0),
        ("Sum.\nFinal: 72.", "final", 1.0),
        ("Final: 72\nFinal: 72", "final", 0.0),
        ("<answer>72</answer>", "tag", 1.0),
        ("<answer>72</answer> yes", "tag", 0.0),
        ("<answer>72", "tag", 0.0),
    ],
)
def test_answer_format(completion, format, score):
    assert answer_format([completion], format=format, answer=["72"]) == [score]
