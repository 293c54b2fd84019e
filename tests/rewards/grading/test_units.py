import pytest

from reward_ablation.rewards import grade_answer
from reward_ablation.rewards.grading.units import measurement_unit


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


@pytest.mark.parametrize(
    ("gold", "answer", "status"),
    [
        ("3", r"3\text{ m}", "correct"),  # a gold without a unit leaves it to the question
        (r"3\text{ m}", "3", "correct"),
        (r"3\text{ cm}", r"3\text{ m}", "wrong"),
        (r"3\text{ cm}", "3 centimeters", "correct"),
        (r"3\text{ cm}^3", r"3\text{ cm}^2", "wrong"),
        ("3 dollars", "3 eggs", "correct"),  # eggs say nothing
    ],
)
def test_units_of_gold_and_answer(gold, answer, status):
    assert grade_answer(answer, gold).status == status
