"""Components: the formula of each, by hand."""

import random

import pytest

from reward_ablation.rewards.components import completion_texts
from reward_ablation.rewards.components.answer_format import answer_format
from reward_ablation.rewards.components.constant import constant
from reward_ablation.rewards.components.correctness import correctness
from reward_ablation.rewards.components.random_score import random_score
from reward_ablation.rewards.components.token_length import token_length


def test_completion_texts_reads_both_forms():
    chat = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert completion_texts(["a", chat]) == ["a", "a\nb"]


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


@pytest.mark.parametrize(
    ("completion", "format", "score"),
    [
        ("Sum.\n#### 72", "hash", 1.0),
        ("Sum.\n#### 72\n\n", "hash", 1.0),
        ("Sum.\n#### wrong", "hash", 1.0),  # the form, whatever it says
        ("#### 1\n#### 72", "hash", 0.0),  # twice
        ("#### 72\nNo, wait", "hash", 0.0),  # not last
        ("####", "hash", 0.0),
        (r"So $\boxed{72}$.", "boxed", 1.0),
        (r"\[ \boxed{72} \]" + "\n", "boxed", 1.0),
        (r"**\boxed{\frac{1}{2}}**", "boxed", 1.0),
        (r"\boxed 2$.", "boxed", 1.0),
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


@pytest.mark.parametrize(
    ("tokens", "score"),
    [(40, 1.0), (30, 0.5), (50, 0.5), (20, 0.0), (60, 0.0), (0, 0.0), (500, 0.0)],  # 1 - |tokens - 40| / 20
)
def test_token_length(tokens, score):
    assert token_length(["text"], [[7] * tokens], target=40, width=20) == [score]


def test_constant():
    assert constant(["a", "b"], value=0.5, answer=["1", "2"]) == [0.5, 0.5]


def test_random_score_repeats_and_moves_no_generator():
    state = random.getstate()
    scores = random_score(["a", "b", "a", "a"], ["p", "p", "p", "q"], seed=1)
    assert random.getstate() == state
    assert scores[0] == scores[2]
    assert len({*scores, *random_score(["a"], ["p"], seed=2)}) == 4  # seed, problem and text each count
    assert random_score(["\ud800"], ["p"]) == random_score(["\ud800"], ["p"])


def test_random_score_is_uniform():
    """Mean 1/2 with a standard error of 0.0046 for 4,000 uniform draws."""
    scores = random_score([str(n) for n in range(4000)], ["p"] * 4000)
    assert all(0 <= score < 1 for score in scores)
    assert abs(sum(scores) / 4000 - 0.5) < 0.02
