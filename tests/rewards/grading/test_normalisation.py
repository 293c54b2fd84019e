"""The canonical form of an answer, and exact values."""

from fractions import Fraction

import pytest

from public_data import rows
from reward_ablation.rewards.grading.exact import exact_value
from reward_ablation.rewards.grading.normalisation import comparison_key, is_prose, normalise
from reward_ablation.rewards.grading.units import measurement_unit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", Fraction(72)),
        ("+72", Fraction(72)),
        ("-72", Fraction(-72)),
        ("\u221272", Fraction(-72)),  # a typographic minus
        ("072", Fraction(72)),
        ("72.", Fraction(72)),
        ("$72", Fraction(72)),
        (r"\$72.00", Fraction(72)),
        ("**72**", Fraction(72)),
        ("1,234,567", Fraction(1234567)),
        ("1{,}234", Fraction(1234)),
        (r"1,\!234", Fraction(1234)),
        (r"1\,234", Fraction(1234)),
        ("1 234", Fraction(1234)),
        ("12,34", None),  # no groups of three: a list, or a decimal comma
        ("32, 349", None),  # a list
        ("0,111", None),  # no thousands begin with 0
        ("3.5", Fraction(7, 2)),
        (".5", Fraction(1, 2)),
        ("-.5", Fraction(-1, 2)),
        ("1/2", Fraction(1, 2)),
        ("-1/2", Fraction(-1, 2)),
        ("1/0", None),
        ("0.5/2", Fraction(1, 4)),
        (r"\frac{1}{2}", Fraction(1, 2)),
        (r"\dfrac12", Fraction(1, 2)),
        (r"-\frac{1}{2}", Fraction(-1, 2)),
        (r"\frac{-1}{2}", Fraction(-1, 2)),
        (r"\frac{270}7", Fraction(270, 7)),
        (r"1\frac{1}{2}", Fraction(3, 2)),  # a mixed number
        (r"-1\frac{1}{2}", Fraction(-3, 2)),
        ("1 1/2", Fraction(3, 2)),
        ("11/2", Fraction(11, 2)),
        (r"2\frac{3}{2}", None),  # no proper fraction: a product if anything
        ("5%", Fraction(1, 20)),  # never 5
        (r"12.5\%", Fraction(1, 8)),
        ("28 percent", Fraction(7, 25)),
        (r"3 \times 10^{4}", Fraction(30000)),
        ("1.5e3", Fraction(1500)),
        (r"10^{10^{10}}", None),
        ("72 eggs", Fraction(72)),
        ("5 cm", Fraction(5)),
        ("5cm^2", Fraction(5)),
        (r"5.4 \text{ cents}", Fraction(27, 5)),
        (r"15\mbox{ cm}^2", Fraction(15)),
        (r"90^\circ", Fraction(90)),
        ("3 dozen", Fraction(36)),
        (r"2 \text{ million}", Fraction(2_000_000)),
        (r"4 \text{ p.m.}", None),  # not 4 a.m.
        ("3 m", None),  # a single letter may be a variable
        ("204_5", None),  # another base
        ("x", None),
        ("", None),
    ],
)
def test_exact_value_of_a_normalised_answer(text, value):
    assert exact_value(normalise(text)) == value


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (r"\left( 3, \dfrac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        (r"\sqrt3", r"\sqrt{3}"),
        (r"x^{2}", "x^2"),
        (r"\text{Evelyn}", "evelyn"),
        (r"\text{(C)}", "C"),
        (r"x \leq 2", r"x \le 2"),
        (r"\( x + 1 \)", "x+1"),
    ],
)
def test_equal_keys(text, same):
    assert comparison_key(normalise(text)) == comparison_key(normalise(same))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("1 1/2", "11/2"),  # the space is an addition
        ("e", "E"),  # single letters keep their case
        ("thing", "night"),
        ("(1,2)", "[1,2]"),
    ],
)
def test_different_keys(text, other):
    assert comparison_key(normalise(text)) != comparison_key(normalise(other))


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


@pytest.mark.parametrize("sign", ["", "-", "+"])
@pytest.mark.parametrize("number", ["72", "1,234", "1,234.50", "0.5", "12345678", "1,2"])
@pytest.mark.parametrize("dollar", ["", "$", r"\$"])
@pytest.mark.parametrize("end", ["", ".", "%", r"\%", r"\%."])
def test_the_short_cut_for_plain_numbers_is_what_the_rules_give(sign, number, dollar, end):
    text = dollar + sign + number + end
    assert normalise(text) == normalise(f" {text} ")  # a space is no plain number


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
