"""The second grader: the string rules of the MATH paper, quirks included."""

import pytest

from public_data import rows
from reward_ablation.rewards.math_paper import MAX_CHARACTERS, equivalent, normalise
from reward_ablation.study.code_digest import module_digests


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("1\n2", "12"),  # a line break
        (r"10 \text{ km} + 5", "10"),  # what follows a unit is lost with it
        (r"10\text{units}", r"10\text{units}"),  # no blank, no unit
        ("4, .1, {.2}", "4,0.1,{0.2}"),
        ("k = 5", "5"),
        ("xy = 5", "xy=5"),  # three characters with the blank
        (r"\sqrt[3]{2}", r"\sqrt{[}3]{2}"),
        (r"\frac12", r"\frac{1}{2}"),
        (r"\frac{72}1", r"\frac{72}1"),  # the published rules leave this one
        (r"\frac12 + \frac3", r"\frac12+\frac3"),  # and all fractions, if one is without its denominator
        ("0.5", r"\frac{1}{2}"),
    ],
)
def test_normalise(text, normalised):
    assert normalise(text) == normalised


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("0.25", r"\frac{1}{4}", False),  # strings, not values
        (r"10\%", "0.1", False),  # the grader of this package says yes
        # where a rule cannot be applied, the strings as they stand
        (r"5\text{ m}\text{ s}", "5", False),
        (r"1 + \frac", r"1 + \frac", True),
        (r"1 + \frac", r"1+\frac", False),
        (" " * (MAX_CHARACTERS - 1) + "1", "1", True),
        (" " * MAX_CHARACTERS + "1", "1", False),  # too long to be read
        ("\\frac1" * 2**18, "72", False),
        ("72", "\udc80" * 2**20, False),
    ],
)
def test_equivalent(answer, gold, same):
    assert equivalent(answer, gold) is same
    assert equivalent(answer, answer)


def test_the_published_cases():
    cases = [row for row in rows("grader_cases.jsonl") if "hendrycks/math/" in row["source"]]
    assert len(cases) == 16
    for case in cases:
        assert equivalent(case["prediction"], case["gold"]) == bool(case["expected"]), case


def test_it_judges_answers_and_no_rewards():
    """A change in the module therefore evaluates again, but trains nothing again."""
    training = module_digests("reward_ablation.training", "reward_ablation.rewards.components.correctness")
    assert "reward_ablation.rewards.math_paper" not in training
    assert "reward_ablation.rewards.math_paper" in module_digests("reward_ablation.evaluation")
