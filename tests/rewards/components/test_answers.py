"""Components that judge an answer or its form: the reference systems' own, and the mended mistakes of these systems."""

import pytest

from public_data import gsm8k_gold, rows
from reward_ablation.rewards.components.answer_format import answer_format as format_score
from reward_ablation.rewards.components.boxed_answer import boxed_answer
from reward_ablation.rewards.components.character_length import character_length
from reward_ablation.rewards.components.correctness import correctness
from reward_ablation.rewards.components.final_line import final_line
from reward_ablation.rewards.components.keyword_steps import keyword_steps
from reward_ablation.rewards.components.signed_answer import signed_answer
from reward_ablation.rewards.components.three_way_verifier import three_way_verifier


@pytest.mark.parametrize(
    ("completion", "gold", "score"),
    [
        (r"\boxed{\frac12}", r"\dfrac{1}{2}", 1.0),  # and so is the gold
        (r"\boxed{72}, \boxed{1}", "72", 0.0),
        (r"\boxed{0.25}", r"\frac{1}{4}", 0.0),  # strings, not values
        (r"\boxed{72} \boxed{1", "72", 0.0),  # cut off before its answer
        (r"\boxed{72} \boxed{}", "72", 0.0),  # here the last one counts, empty or not
        (r"<think>\boxed{72}</think>", "72", 0.0),
        (r"\boxed{72}", "", None),
    ],
)
def test_boxed_answer(completion, gold, score):
    assert boxed_answer([completion], [gold], problem_id=["p"]) == [score]


def test_every_gold_of_math500_boxed_letter_by_letter_is_right():
    """If the gold is not normalised, 75 of the 500 golds score 0."""
    golds = [row["answer"] for row in rows("math500.jsonl")]
    assert boxed_answer([rf"\boxed{{{gold}}}" for gold in golds], golds) == [1.0] * 500


def test_rldynamics_total_of_a_terse_right_answer():
    r"""0.34 · 1 + 0.33 · 0.4 + 0.33 · 10/800 = 0.476, with the 10 characters of \boxed{72}."""
    terse = [r"\boxed{72}"]
    scores = boxed_answer(terse, ["72"]) + keyword_steps(terse) + character_length(terse)
    assert 0.34 * scores[0] + 0.33 * scores[1] + 0.33 * scores[2] == pytest.approx(0.476, abs=5e-4)


def test_rldynamics_total_of_a_wrong_answer_that_hacks_it():
    """0.34 · 0 + 0.33 · 1 + 0.33 · 1 = 0.66: more than a short right answer."""
    hack = [r"First, second, third, \boxed{}".ljust(800, ".")]
    scores = boxed_answer(hack, ["72"]) + keyword_steps(hack) + character_length(hack)
    assert scores == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("completion", "gold", "score"),
    [
        ("Final: 42.0", "42", 1.0),  # equal as values
        ("Final: 1234", "1,234", 1.0),  # a gold with a comma can be right
        ("Final: 1,234", "1234", 1.0),
        ("Final: -.5", "-1/2", 1.0),
        ("Final: 71", "72", 0.1),
        ("Final: 72\nIs that so?", "72", 0.0),  # does not end the text
        ("Final: 72 eggs", "72", 0.0),
        ("Final: 72", "", None),
    ],
)
def test_final_line(completion, gold, score):
    assert final_line([completion], [gold], problem_id=["p"]) == [score]


def test_final_line_takes_its_three_scores_as_parameters():
    completions = ["Final: 72", "Final: 71", "72"]
    assert final_line(completions, ["72"] * 3, correct=2, well_formed=0.5, malformed=-1) == [2.0, 0.5, -1.0]


def test_every_gold_of_gsm8k_can_be_right_on_a_final_line():
    """This includes the golds with a comma: 79 in the training set and 14 in the test set."""
    golds = [gsm8k_gold(row) for name in ("gsm8k_train.jsonl", "gsm8k_test.jsonl") for row in rows(name)]
    assert sum("," in gold for gold in golds) == 93
    assert set(final_line([f"Final: {gold.replace(',', '')}" for gold in golds], golds)) == {1.0}


@pytest.mark.parametrize(
    ("completion", "gold", "score"),
    [
        (r"\boxed{72}", "72", 1.0),
        (r"\boxed{71}", "72", -1.0),
        (r"\boxed{9^{9^{9}}}", "72", -1.0),  # too costly to compare
        (r"\boxed{}", "72", -0.5),
        ("72", "72", -0.5),
        (r"\boxed{72}", "", None),
    ],
)
def test_three_way_verifier(completion, gold, score):
    assert three_way_verifier([completion], [gold], problem_id=["p"]) == [score]


def test_three_way_verifier_takes_its_three_scores_as_parameters():
    completions = [r"\boxed{72}", r"\boxed{71}", "72"]
    assert three_way_verifier(completions, ["72"] * 3, correct=2, wrong=0, missing=-1) == [2.0, 0.0, -1.0]


@pytest.mark.parametrize(
    ("completion", "gold", "score"),
    [
        ("<think>9 * 8</think><answer>72</answer>", "72", 1.0),
        ("<answer>He has 3 boxes of 24, so 72 eggs.</answer>", "72", 1.0),  # the last number in the tag
        ("<answer>-5</answer>", "5", -1.0),  # the sign counts
        (r"<answer>72\%</answer>", "72", 1.0),  # the number, without the percent sign
        (r"<answer>72\%</answer>", "0.72", -1.0),
        ("<answer>答案是７２</answer>", "72", 1.0),
        ("<answer>71</answer>", "72", -1.0),
        ("72", "72", -1.0),  # not in the tag
        ("<answer>71</answer> or 72", "72", -1.0),
        ("<answer>72", "72", -1.0),
        ("<answer>72</answer>", "", None),
    ],
)
def test_signed_answer(completion, gold, score):
    assert signed_answer([completion], [gold], problem_id=["p"]) == [score]


@pytest.mark.parametrize(
    ("completion", "format", "score"),
    [
        ("Sum.\n#### 72", "hash", 1.0),
        ("Sum.\n#### 72\n\n", "hash", 1.0),
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
        (r"\boxed{72", "boxed", 0.0),
        (r"\boxed{}", "boxed", 0.0),
        (r"<think>\boxed{1}</think>\boxed{72}", "boxed", 1.0),
        ("Sum.\nFinal: 72.", "final", 1.0),
        ("<answer>72</answer>", "tag", 1.0),
        ("<answer>72</answer> yes", "tag", 0.0),
    ],
)
def test_answer_format(completion, format, score):
    assert format_score([completion], format=format, answer=["72"]) == [score]


@pytest.mark.parametrize(
    ("completion", "gold", "answer_format", "score"),
    [
        ("#### 72", "72", "hash", 1.0),
        ("#### 71", "72", "hash", 0.0),
        (r"\boxed{9^{9^{9}}}", "72", "boxed", 0.0),  # no way out of the loss
        ("#### 72", "", "hash", None),  # without a gold there is no verdict
    ],
)
def test_correctness(completion, gold, answer_format, score):
    assert correctness([completion], [gold], answer_format=answer_format, problem_id=["p"]) == [score]
