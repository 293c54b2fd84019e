"""Equality by value. Every false positive here comes from math-verify's own comparison, or from a tolerance."""

import pytest

from reward_ablation.rewards.grading.symbolic import equal


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        # numbers, exactly
        (r"\sqrt{5+2\sqrt{6}}", r"\sqrt{2}+\sqrt{3}", True),
        ("0", r"\sqrt{2}+\sqrt{3}-\sqrt{5+2\sqrt{6}}", True),
        (r"\frac{1}{2006!}", r"\frac{1}{2004!}", False),
        ("10^{-7}", r"2 \cdot 10^{-7}", False),
        (r"\sqrt{2}", "1.41421356", False),
        ("1", r"\cos(10^{-30})", False),
        ("1", "1-10^{-219}", False),
        (r"\sqrt{931}\cdot10^{143}", r"\sqrt{931}\cdot10^{143}+1", False),
        ("2^{187}", "2^{187}+1", False),
        (r"e^{i\pi}", "-1", True),
        ("55", r"\sum_{k=1}^{10} k", True),
        (r"\frac{\pi}{4}", r"\arctan(1)", True),
        # formulae
        ("x^2+2x+1", "(x+1)^2", True),
        (r"\sin^2 x+\cos^2 x", "1", True),
        ("x", "x+10^{-28}", False),
        (r"\sqrt{x^2}", "x", False),
        (r"0.5x", r"\frac{x}{2}", True),
        (r"\frac{x}{3}", "0.333333333x", False),
        ("f(x)", "f(y)", False),
        # equations and inequalities
        ("2x+y=3", "y=3-2x", True),
        ("2x+y=3", "4x+2y=6", True),
        ("2x+y=3", "4x+2y=7", False),
        ("x>5", "5<x", True),
        ("x>5", "x<5", False),
        (r"2x \ge 10", r"x \ge 5", True),
        (r"2x \ge 10", "x > 5", False),
        # what has no value
        (r"[1,2)\cup(3,\infty)", r"(3,\infty)\cup[1,2)", True),
        (r"[1,2)\cup(3,\infty)", r"[1,2]\cup(3,\infty)", False),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}", True),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}", False),
        ("12:00", "1:00", False),  # ratios with a zero are equal to sympy
    ],
)
def test_equal(gold, answer, verdict):
    assert equal(gold, answer) is verdict


@pytest.mark.parametrize("answer", [r"\frac{", "", "+"])
def test_what_is_no_mathematics_is_unreadable(answer):
    assert equal("x", answer) is None
