"""The canonical form of an answer, and exact values."""

from itertools import product

import pytest

from public_data import rows
from reward_ablation.rewards.grading.normalisation import is_prose, measurement_unit, normalise


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("Evelyn", True),
        ("the answer is 72", True),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", False),
        (r"\operatorname{lcm}(x)", False),
        (r"\sqrt{2}", False),
        ("abc", False),  # a product
    ],
)
def test_is_prose(text, prose):
    assert is_prose(text) == prose


@pytest.mark.parametrize(
    "name", ["math500.jsonl", pytest.param("math_train.jsonl", marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_normalising_twice_changes_no_answer_of_math(name):
    once = [normalise(row["answer"]) for row in rows(name)]
    assert [normalise(text) for text in once] == once


def test_the_short_cut_for_plain_numbers_is_what_the_rules_give():
    numbers = ["72", "1,234", "1,234.50", "0.5", "12345678", "1,2"]
    for parts in product(["", "$", r"\$"], ["", "-", "+"], numbers, ["", ".", "%", r"\%", r"\%."]):
        text = "".join(parts)
        assert normalise(text) == normalise(f" {text} "), text  # a space is no plain number


@pytest.mark.parametrize(
    ("answer", "unit"),
    [
        (r"3\text{ cm}", "cm"),
        ("3 centimetres", "cm"),
        (r"5\text{ cm}^2", "cm^2"),
        ("5 square inches", "in^2"),
        (r"12 \mathrm{m}^3", "m^3"),
        ("5 inches.", "in"),
        ("$5$ meters", "m"),
        (r"18 \text{ feet}", "ft"),
        (r"60\%", "%"),
        ("60 percent", "%"),
        (r"60\text{ percent}.", "%"),
        ("60％", "%"),
        ("72 eggs", ""),  # no unit of measurement
        ("3m", None),  # a variable
        ("x", None),
        ("", None),
        (r"\text{cm}", None),  # no value before it
    ],
)
def test_measurement_unit(answer, unit):
    assert measurement_unit(answer) == unit
