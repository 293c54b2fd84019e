r"""Whether two answers are equal, without a parser. None: only a parser can decide."""

import pytest

from reward_ablation.rewards.grading.comparison import compare
from reward_ablation.rewards.grading.normalisation import normalise
from reward_ablation.rewards.grading.structure import parts


def compared(gold, answer):
    return compare(normalise(gold), normalise(answer), lambda gold, answer: None)


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        # numbers
        ("0.5", r"\frac{1}{2}", True),
        (r"\frac{1}{12}", "0.0833333333333333", False),
        ("1000", "999.9999999999999", False),
        (r"\frac{13}{99}", r"0.\overline{13}", True),
        ("1000.99", "1000,99", False),  # a list
        ("1234", "1,234", True),
        ("1.234", "1,234", False),  # thousands
        # lists and sets: no order
        ("1, 2", "2,1", True),
        ("1, 2", "1 and 2", True),
        ("1, 2", r"1 \text{ or } 2", True),
        (r"\{1, 2\}", "{2, 1}", True),
        (r"\{1, 2\}", "2, 1", True),
        (r"\{1, 1, 2\}", r"\{1, 2, 2\}", True),
        ("1, 1, 2", "1, 2, 2", False),  # a list of roots or numbers: it counts how often
        ("1, 2", "1, 2, 3", False),
        (r"\{1, 2\}", r"\{1, 2, 3\}", False),
        (r"\{5\}", "5", True),
        (r"1 \pm \sqrt{2}", r"1-\sqrt{2}, 1+\sqrt{2}", True),
        # tuples and intervals: ordered, with their brackets
        ("(1, 2)", "(2, 1)", False),
        ("(1, 2)", "1, 2", True),
        ("(1, 2)", r"\{1, 2\}", False),
        ("(1, 2)", "[1, 2]", False),
        ("[0, 1)", "[0,1)", True),
        ("(1,234)", "1234", False),  # inside of brackets every comma separates
        (r"\langle 1, 2 \rangle", "(1, 2)", True),
        ("(2, 1), (1, 2)", "(1, 2), (2, 1)", True),
        ("(2, 1), (1, 2)", "(1, 2), (1, 2), (2, 1)", True),  # points: a set of solutions
        ("(2, 1), (1, 2)", "(1, 2), (2, 2)", False),
        ("(11,7)or(7,11)", "(7,11), (11,7)", True),
        # labels
        ("5", "x = 5", True),
        ("x = 5", "5", True),
        ("(3, 2)", "(p, q) = (3, 2)", True),
        ("(1, 2)", "x = 1, y = 2", True),
        ("(5, 2), (7, 2)", "p=5, q=2; p=7, q=2", True),
        (r"x \in [0, 1]", "[0, 1]", True),
        ("30", r"\theta = 30", True),
        ("3", r"\pi = 3", False),  # that is no label
        ("x = 1", "y = 1", False),
        # chains
        ("5", "AB = 2 \\cdot 2.5 = 5", True),
        ("241", "1484 = 241", False),
        ("4557", r"3241 \approx 4557", False),
        ("11", r"x \approx 11", True),
        (r"\frac{1}{3}", r"x = 1/3 \approx 0.33", True),
        ("55", r"\sum_{k=1}^{10} k", None),  # that equals sign is not one of a chain
        # inequalities as intervals
        ("[-2, 7)", r"-2 \le x < 7", True),
        ("[-2, 7)", r"7 > x \ge -2", True),
        (r"(-\infty, 5)", "x < 5", True),
        (r"[5, \infty)", r"5 \le x", True),
        (r"(5, \infty)", r"x \ge 5", False),
        ("x < 5", "x < 5", True),
        ("(0, 1)", "0 < f(x) < 1", True),
        # percent: GSM8K asks for percentages and has bare golds; ToRA boxes 20\% there
        ("5", r"5\%", True),
        (r"5\%", "5", True),
        ("0.05", r"5\%", True),
        (r"5\%", "0.05", True),
        ("0.5", r"5\%", False),
        ("500", r"5\%", False),
        ("5", r"5\%\%", False),
        ("5", r"x = 5\%", True),
        (r"33\frac{1}{3}", r"\frac{100}{3}\%", True),
        ("33.3", r"33\frac{1}{3}\%", False),
        (r"10\%, 20\%", r"20\%, 10\%", True),
        (r"10\%, 20\%", "20, 10", True),
        ("(10, 20)", r"(10\%, 20\%)", True),
        ("(10, 20)", r"(20\%, 10\%)", False),
        (r"10\%, 20\%", r"10, 20\%", False),  # the sign of all numbers, or of none
        ("1, 2", r"1\%, 2", False),
        (r"5\%", "5, 0.05", False),  # two guesses
        (r"x\%", "x", False),  # numbers alone
        # signs
        ("33", "--33", False),
        ("-33", "--33", False),
        ("-33", "+-33", False),  # may stand for both signs
        ("33", "- -33", False),
        ("33", "x = --33", False),
        ("33", "-(-33)", True),
        # a list of Python for a column vector
        (r"\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix}", "[1, 2, 3]", True),
        (r"\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix}", "[1, 3, 2]", False),
        (r"\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix}", "[1, 2]", False),
        ("[1, 2]", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", False),  # there [1, 2] is an interval
        (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", "[1, 2]", False),
        # words and letters
        ("thing", "night", False),
        ("Monday, Friday", "friday, monday", True),
        ("487x", "487X", False),
        # numerals
        ("1101_2", "1101", True),
        ("1101_2", "1101_{3}", False),
        ("1101_2", "13_{10}", False),  # bases are not converted
        ("A_1", "A", False),  # a variable with an index
        (r"\sqrt{2}", "1.4142", False),
        (r"\sqrt{8}", r"2\sqrt{2}", None),
    ],
)
def test_compare(gold, answer, verdict):
    assert compared(gold, answer) is verdict


@pytest.mark.parametrize(
    ("text", "brackets", "expected"),
    [
        ("5", "", ["5"]),
        ("1,234, 5", "", ["1,234", "5"]),
        ("(1,234)", "()", ["1", "234"]),
        (r"\{1; 2\}", "{}", ["1", "2"]),
        ("(1, 2), 3", "", ["(1, 2)", "3"]),
        ("(1, 2)(3, 4)", "", ["(1, 2)(3, 4)"]),
        ("f(1, 2)", "", ["f(1, 2)"]),
        (r"\begin{array}{c} a, b \end{array}", "", [r"\begin{array}{c} a, b \end{array}"]),
        ("]0, 1[", "", ["]0, 1["]),
        (",", "", [","]),
    ],
)
def test_parts(text, brackets, expected):
    assert parts(text) == (brackets, expected)
