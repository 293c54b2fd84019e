"""The second grader: the string rules of the MATH paper, quirks included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from public_data import rows
from reward_ablation.rewards.math_paper import MAX_CHARACTERS, equivalent, normalise
from reward_ablation.study.code_digest import module_digests


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("1\n2", "12"),  # a line break
        (r"90^\circ", "90"),
        (r"90^{\circ}", "90"),
        (r"10 \text{ km} + 5", "10"),  # what follows a unit is lost with it
        (r"10\text{units}", r"10\text{units}"),  # no blank, no unit
        ("10%", "10"),
        ("4, .1, {.2}", "4,0.1,{0.2}"),
        ("k = 5", "5"),
        ("k=5", "5"),
        ("xy = 5", "xy=5"),  # three characters with the blank
        (r"\sqrt[3]{2}", r"\sqrt{[}3]{2}"),
        (r"\frac12", r"\frac{1}{2}"),
        (r"\frac{72}1", r"\frac{72}1"),  # the published rules leave this one
        (r"\frac12 + \frac3", r"\frac12+\frac3"),  # and all fractions, if one is without its denominator
        ("0.5", r"\frac{1}{2}"),
        (".5", r"\frac{1}{2}"),
        ("01/2", "01/2"),  # no plain integers
        ("1/2/3", "1/2/3"),
    ],
)
def test_normalise(text, normalised):
    assert normalise(text) == normalised


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("0.25", r"\frac{1}{4}", False),  # strings, not values
        ("1,000", "1000", False),
        (r"10\%", "0.1", False),  # the grader of this package says yes
        ("2, 1", "1, 2", False),
        # where a rule cannot be applied, the strings as they stand
        (r"5\text{ m}\text{ s}", "5", False),
        (r"1 + \frac", r"1 + \frac", True),
        (r"1 + \frac", r"1+\frac", False),
    ],
)
def test_equivalent(answer, gold, same):
    assert equivalent(answer, gold) is same


def test_the_published_cases():
    cases = [row for row in rows("grader_cases.jsonl") if "hendrycks/math/" in row["source"]]
    assert len(cases) == 16
    for case in cases:
        assert equivalent(case["prediction"], case["gold"]) == bool(case["expected"]), case


@pytest.mark.parametrize("unit", ["9", r"\frac1", r"\text{ m}", "\udc80"])
def test_a_megabyte_is_compared_as_it_stands(unit):
    text = unit * (2**20 // len(unit))
    assert normalise(text) is None
    assert equivalent(text, text)
    assert not equivalent(text, "72")
    assert not equivalent("72", text)


def test_the_longest_text_that_is_read():
    assert normalise(" " * (MAX_CHARACTERS - 1) + "1") == "1"
    assert normalise(" " * MAX_CHARACTERS + "1") != "1"


PIECES = st.sampled_from(
    ["\\", "{", "}", " ", ".", "=", "/", "%", "1", "-", "k", r"\frac", r"\sqrt", r"\text{ ", r"\left", "\n", "\udc80"]
)


@given(st.lists(PIECES | st.characters(), max_size=30).map("".join))
def test_any_text_has_a_verdict(text):
    assert equivalent(text, text)
    assert isinstance(normalise(text), str | None)


def test_it_judges_answers_and_no_rewards():
    """A change in the module therefore evaluates again, but trains nothing again."""
    training = module_digests("reward_ablation.training", "reward_ablation.rewards.components.correctness")
    assert "reward_ablation.rewards.math_paper" not in training
    assert "reward_ablation.rewards.math_paper" in module_digests("reward_ablation.evaluation")
