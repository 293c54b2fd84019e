"""Components that judge an answer or the form of a text, beside the worked examples of docs/rewards.md."""

from functools import partial

import pytest

from public_data import gsm8k_gold, rows
from reward_ablation.rewards.components.answer_format import answer_format
from reward_ablation.rewards.components.boxed_answer import boxed_answer
from reward_ablation.rewards.components.character_length import character_length
from reward_ablation.rewards.components.correctness import correctness
from reward_ablation.rewards.components.final_line import final_line
from reward_ablation.rewards.components.keyword_steps import keyword_steps
from reward_ablation.rewards.components.signed_answer import signed_answer
from reward_ablation.rewards.components.step_format import step_format
from reward_ablation.rewards.components.tag_count import tag_count
from reward_ablation.rewards.components.think_answer_tags import think_answer_tags
from reward_ablation.rewards.components.three_way_verifier import three_way_verifier

by_hash, ten_steps = partial(correctness, answer_format="hash"), partial(step_format, steps=10)
boxed, hashed, final, tagged = (partial(answer_format, format=name) for name in ("boxed", "hash", "final", "tag"))


@pytest.mark.parametrize(
    ("component", "completion", "gold", "score"),
    [
        (boxed_answer, r"\boxed{72} \boxed{1", "72", 0.0),  # cut off before its answer
        (boxed_answer, r"\boxed{72} \boxed{}", "72", 0.0),  # here the last one counts, empty or not
        (boxed_answer, r"\boxed{72}", "", None),
        (final_line, "Final: 1234", "1,234", 1.0),  # a gold with a comma can be right
        (final_line, "Final: -.5", "-1/2", 1.0),
        (final_line, "Final: 72\nIs that so?", "72", 0.0),  # does not end the text
        (final_line, "Final: 72", "", None),
        (three_way_verifier, r"\boxed{9^{9^{9}}}", "72", -1.0),  # too costly to compare
        (three_way_verifier, r"\boxed{72}", "", None),
        (signed_answer, "<answer>He has 3 boxes of 24, so 72 eggs.</answer>", "72", 1.0),  # the last number in the tag
        (signed_answer, "<answer>-5</answer>", "5", -1.0),  # the sign counts
        (signed_answer, r"<answer>72\%</answer>", "72", 1.0),  # the number, without the percent sign
        (signed_answer, r"<answer>72\%</answer>", "0.72", -1.0),
        (signed_answer, "<answer>答案是７２</answer>", "72", 1.0),
        (signed_answer, "<answer>71</answer> or 72", "72", -1.0),  # not in the tag
        (signed_answer, "<answer>72</answer>", "", None),
        (by_hash, "#### 72", "", None),  # without a gold there is no verdict
        (correctness, r"\boxed{9^{9^{9}}}", "72", 0.0),  # no way out of the loss
        (hashed, "Sum.\n#### 72\n\n", "", 1.0),
        (hashed, "####", "", 0.0),
        (boxed, r"**\boxed{\frac{1}{2}}**", "", 1.0),
        (boxed, r"最大值为 $\boxed{5}$。", "", 1.0),  # the Chinese stop
        (boxed, r"最大值为 $\boxed{5}$。对吗", "", 0.0),
        (boxed, r"<think>\boxed{1}</think>\boxed{72}", "", 1.0),
        (final, "Sum.\nFinal: 72.", "", 1.0),
        (tagged, "<answer>72</answer> yes", "", 0.0),
        (keyword_steps, "first first first", "", 0.25),  # each word once
        (keyword_steps, "Step 1: add. Step 2: carry.", "", 0.5),
        (keyword_steps, "s t e p 1", "", 0.25),  # blanks are removed
        (keyword_steps, r"first second third \boxed{72}", "", 1.0),  # 1.15, cut
        (ten_steps, "step 1: add", "", 0.0),
        (ten_steps, "1. add\n2. carry", "", 0.2),  # each line, not only the first
        (ten_steps, "- add\n- carry\n* write", "", 0.3),
        (ten_steps, "First, add. Next, carry. Finally, write.", "", 0.3),
        (ten_steps, "- Step 1: add", "", 0.2),
        (step_format, "Step 1: " * 2, "", 2 / 3),  # a full score at three marks by default
        (step_format, "Step 1: " * 4, "", 1.0),
        (tag_count, "<think>\n<think>\n9 * 8\n</think>\n<answer>\n72\n</answer>", "", 0.75),  # twice is not once
        (tag_count, "\n</answer><think>\n", "", 0.5),  # in any order
        (think_answer_tags, "<think>9 * 8</think><answer>72</answer>\n", "", -1.0),
        (think_answer_tags, "<think>9 * 8</think><answer>72</answer><answer>72</answer>", "", -1.0),
        (think_answer_tags, "<answer>72</answer><think>9 * 8</think>", "", -1.0),
    ],
)
def test_score(component, completion, gold, score):
    [found] = component([completion], answer=[gold], problem_id=["p"])
    assert found == (None if score is None else pytest.approx(score))


def test_scores_are_parameters():
    final = ["Final: 72", "Final: 71", "72"]
    assert final_line(final, ["72"] * 3, correct=2, well_formed=0.5, malformed=-1) == [2.0, 0.5, -1.0]
    boxed = [r"\boxed{72}", r"\boxed{71}", "72"]
    assert three_way_verifier(boxed, ["72"] * 3, correct=2, wrong=0, missing=-1) == [2.0, 0.0, -1.0]


def test_every_gold_can_be_right():
    """Without the normalised gold, 75 of the golds of MATH-500 score 0; 93 golds of GSM8K have a comma."""
    golds = [row["answer"] for row in rows("math500.jsonl")]
    assert boxed_answer([rf"\boxed{{{gold}}}" for gold in golds], golds) == [1.0] * 500
    golds = [gsm8k_gold(row) for name in ("gsm8k_train.jsonl", "gsm8k_test.jsonl") for row in rows(name)]
    assert set(final_line([f"Final: {gold.replace(',', '')}" for gold in golds], golds)) == {1.0}


@pytest.mark.parametrize(
    ("completion", "total"),
    [
        (r"\boxed{72}", 0.476),  # 0.34 · 1 + 0.33 · 0.4 + 0.33 · 10/800: terse and right
        (r"First, second, third, \boxed{}".ljust(800, "."), 0.66),  # 0.34 · 0 + 0.33 · 1 + 0.33 · 1: a hack has more
    ],
)
def test_rldynamics_total(completion, total):
    scores = boxed_answer([completion], ["72"]) + keyword_steps([completion]) + character_length([completion])
    assert 0.34 * scores[0] + 0.33 * scores[1] + 0.33 * scores[2] == pytest.approx(total, abs=5e-4)
