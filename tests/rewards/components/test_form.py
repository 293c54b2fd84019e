"""Components that look at the form of the text: keywords, steps and tags."""

import pytest

from reward_ablation.rewards.components.keyword_steps import keyword_steps
from reward_ablation.rewards.components.step_format import step_format
from reward_ablation.rewards.components.tag_count import tag_count
from reward_ablation.rewards.components.think_answer_tags import think_answer_tags


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("first first first", 0.25),  # each word once
        ("first second third", 0.75),
        ("Step 1: add. Step 2: carry.", 0.5),
        ("s t e p 1", 0.25),  # blanks are removed
        ("Step 10", 0.25),  # counts as step 1
        ("in 30 seconds", 0.25),
        (r"\boxed{}", 0.4),  # empty counts
        (r"\boxed", 0.4),
        (r"first second third \boxed{72}", 1.0),  # 1.15, cut
        (r"first second third step 1 step 2 \boxed{72}", 1.0),  # 1.65, cut
    ],
)
def test_keyword_steps(completion, score):
    assert keyword_steps([completion], answer=["72"]) == [pytest.approx(score)]


@pytest.mark.parametrize(
    ("completion", "marks"),
    [
        ("Step 1 add", 0),
        ("step 1: add", 0),
        ("1. add\n2. carry", 2),  # each line, not only the first
        ("so 1. add", 0),
        ("- add\n- carry\n* write", 3),
        ("a - b * c", 0),
        ("First, add. Next, carry. Finally, write.", 3),
        ("first, add", 0),
        ("- Step 1: add", 2),
    ],
)
def test_step_format(completion, marks):
    assert step_format([completion], steps=10, answer=["72"]) == [marks / 10]


def test_step_format_has_a_full_score_at_three_marks_by_default():
    assert step_format(["Step 1: " * marks for marks in range(5)]) == [0.0, 1 / 3, 2 / 3, 1.0, 1.0]


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<think>\n9 * 8\n</think>\n<answer>\n72\n</answer>", 1.0),
        ("<think>\n<think>\n9 * 8\n</think>\n<answer>\n72\n</answer>", 0.75),  # twice is not once
        ("<think>\n\n</think>\n\n<answer>\n72\n</answer>", 1.0),
        ("<think>9 * 8</think><answer>72</answer>", 0.0),  # without their line breaks
        ("\n</answer><think>\n", 0.5),  # in any order
    ],
)
def test_tag_count(completion, score):
    assert tag_count([completion], answer=["72"]) == [score]


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<think>9 * 8</think><answer>72</answer>", 1.25),
        ("<think></think><answer></answer>", 1.25),
        ("<think>9 * 8</think>\n<answer>72</answer>", -1.0),  # something between
        (" <think>9 * 8</think><answer>72</answer>", -1.0),
        ("<think>9 * 8</think><answer>72</answer>\n", -1.0),
        ("<think>9 * 8</think><answer>72</answer>.", -1.0),
        ("<think><think>9 * 8</think><answer>72</answer>", -1.0),
        ("<think>9 * 8</think><answer>72</answer><answer>72</answer>", -1.0),
        ("<think><answer></think><answer>72</answer>", -1.0),
        ("<answer>72</answer><think>9 * 8</think>", -1.0),
        ("", -1.0),
    ],
)
def test_think_answer_tags(completion, score):
    assert think_answer_tags([completion], answer=["72"]) == [score]
