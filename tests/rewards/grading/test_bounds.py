"""Answers that no parser may get, and answers that a parser can only begin."""

import pytest

from reward_ablation.rewards.grading import grade_answer
from reward_ablation.rewards.grading.grader import is_malformed


@pytest.mark.parametrize(
    ("answer", "malformed"),
    [
        ("72", False),
        ("(0, 1]", False),  # brackets need not match, braces must
        (r"\{1, 2\}", False),
        ("x\n+ 1", False),
        ("x+" * 1001, True),
        ("(" * 21 + "x" + ")" * 21, True),
        ("{x", True),
        ("}x{", True),
        ("7\x002", True),
        ("7\ud8002", True),  # broken UTF-8
    ],
)
def test_is_malformed(answer, malformed):
    assert is_malformed(answer) == malformed


@pytest.mark.parametrize(
    ("answer", "costly"),
    [
        ("2^{2004}", False),  # answers of this form exist
        ("2^{2^{3}}", False),
        ("x^{2} + 5!", False),
        ("9^{9^{9}}", True),
        ("9**9**9", False),  # not LaTeX
        ("2^{99999999}", True),
        ("2^{-99999999}", True),
        (r"\frac{1}{20060!}", True),
        ("(1000000)!", True),
        ("5!!", False),  # a double factorial
        (r"\frac{5!}{3!2!}", False),
        ("2^{5!}", False),
        ("5!!!", True),
        ("(3!)!", False),
        ("((7!)!)!", True),
        ("(2^{9})!", False),
        ("2^{50!}", True),
        ("e^{e^{e^{85}}}", True),
        ("9^{9^9^9}", True),
    ],
)
def test_the_limits_of_the_worker_end_a_comparison(answer, costly):
    assert grade_answer(answer, "-1").status == ("timeout" if costly else "wrong")
