"""Made-up rows that look like GSM8K, MATH, MATH-500 and a list of graders' cases.

The files have the columns and the number of rows of the public ones. They also have the odd rows of the public ones
that the tests ask for: golds with a comma, negative golds, empty golds, rows without a level, one problem that is there
twice, and solutions that box two answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

NAMES = ("Ada", "Ben", "Chen", "Dalia", "Emil", "Farah", "Goran")
THINGS = ("pens", "eggs", "stamps", "apples", "marbles")
SUBJECTS = (
    "Algebra",
    "Counting & Probability",
    "Geometry",
    "Intermediate Algebra",
    "Number Theory",
    "Prealgebra",
    "Precalculus",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")

#: Odd rows of MATH's training set: a row that repeats another, rows with an empty gold, rows without a level, and rows
#: whose solution boxes two answers.
DUPLICATE, DUPLICATED = 959, 925
EMPTY_GOLDS = (5341, 5342)
NO_LEVEL = (2773, 2832)
TWO_BOXES = range(50, 950, 100)


def write_all(folder: Path) -> None:
    """Write all files into a folder."""
    files: dict[str, Iterator[Row]] = {
        "gsm8k_train.jsonl": gsm8k("train", rows=7473, with_comma=79, negative=3),
        "gsm8k_test.jsonl": gsm8k("test", rows=1319, with_comma=14, negative=2),
        "math_train.jsonl": math_train(),
        "math500.jsonl": (math_row(number, "test") for number in range(500)),
        "grader_cases.jsonl": grader_cases(),
    }
    for name, rows in files.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def gsm8k(split: str, rows: int, with_comma: int, negative: int) -> Iterator[Row]:
    """Rows of GSM8K: word problems of two steps, with calculations in ``<<...>>``; most golds have three digits."""
    commas = range(10, 10 + 90 * with_comma, 90)
    for number in range(rows):
        name, thing = NAMES[number % 7], THINGS[number % 5]
        boxes, each = 2 + number % 90 + 1000 * (number in commas), 3 + number // 90 % 8
        packed = boxes * each
        gold = -(number + 2) if number < negative else packed - 2
        owed = packed - gold
        question = (
            f"On day {1 + number // 720} of the {split} sale {name} packs {boxes} boxes of {each} {thing} and owes "
            f"{owed} {thing} to a friend. How many {thing} does {name} own in the end?"
        )
        solution = (
            f"{name} packs {boxes} * {each} = <<{boxes}*{each}={packed}>>{packed} {thing}.\n"
            f"{name} owns {packed} - {owed} = <<{packed}-{owed}={gold}>>{gold} {thing} in the end.\n#### {gold:,}"
        )
        yield {"question": question, "answer": solution}


def math_train() -> Iterator[Row]:
    """The 7,500 rows of MATH's training set, with its odd ones."""
    for number in range(7500):
        row = math_row(DUPLICATED if number == DUPLICATE else number, "train")
        if number in EMPTY_GOLDS:
            row |= {"solution": r"There are $\boxed{}$ of them.", "answer": ""}
        if number in NO_LEVEL:
            row["level"] = None
        if number in TWO_BOXES:
            row |= {"solution": rf"$t = \boxed{{1/{number}}}$ or $t = \boxed{{-5/2}}$.", "answer": "-5/2"}
        yield row


def math_row(number: int, split: str) -> Row:
    """One row of MATH: a question, and a solution with its answer in a box."""
    asked, answer = math_problem(number)
    subject = SUBJECTS[number % 7]
    return {
        "problem": f"In exercise {number} of the {split} book: {asked}",
        "solution": rf"We work it out step by step. The answer is $\boxed{{{answer}}}$.",
        "answer": answer,
        "subject": subject,
        "level": 1 + number % 5,
        "unique_id": f"{split}/{subject.lower().replace(' & ', '_and_').replace(' ', '_')}/{number}.json",
    }


def math_problem(number: int) -> tuple[str, str]:
    """A question and its answer in LaTeX; fifteen kinds of answers, which all graders and normalisers must read."""
    a, b = 2 + number % 97, 3 + number % 89
    return (
        ("How many diagonals are there?", f"{a * b}"),
        ("What is the probability?", rf"\frac{{{a}}}{{{a + b}}}"),
        ("What is the probability, as a fraction?", rf"\dfrac{{{a}}}{{{a + b}}}"),
        ("How long is the side?", rf"{a}\sqrt{{{b}}}"),
        ("Find the point.", rf"\left( {a}, \frac{{\pi}}{{{b}}} \right)"),
        ("For which $x$ does it hold?", rf"(-\infty, {a}) \cup [{a + b}, \infty)"),
        ("Expand it.", f"x^2 + {a}x - {b}"),
        ("Find the vector.", rf"\begin{{pmatrix}} {a} \\ -{b} \end{{pmatrix}}"),
        ("On which day is it?", rf"\text{{{DAYS[number % 5]}}}"),
        ("How large is the angle?", rf"{a}^\circ"),
        ("How much does it cost?", rf"\${a}.{10 + b % 90}"),
        ("How much of it is left?", rf"{a}\%"),
        ("Find all roots.", f"{a},{a + b}"),
        ("Find the negative root.", f"-{b}"),
        ("How many are there?", f"{a},\\!{100 + b}"),
    )[number % 15]


#: Gold, prediction, and whether the prediction is right (None: it has no answer).
CASES = [
    ("72", "72", 1),
    ("72", r"\boxed{72}", 1),
    (r"\frac{1}{2}", "0.5", 1),
    ("1000", "1,000", 1),
    ("(1, 2)", "(2, 1)", 0),
    ("72", r"\boxed{}", None),
]

#: What the published grader compares as strings, in the same way.
AS_STRINGS = [
    (r"\frac{1}{2} + 2/3", r"\tfrac{1}{2} + \frac1{73}", 0),
    ("4, 10, -2", "10, 4, -2", 0),
    ("4, 13, 2", "11, 4, 2", 0),
    (r"\dfrac{1}{2} + \frac{1}{73}", r"\tfrac{1}{2} + \! \frac1{73}", 1),
    ("11 ", r"11\text{ units}", 1),
    ("110 ", r"11\text{ units}", 0),
    (r"\$11", "11", 1),
    ("(x-3)(x+3)", r"\left(x-3\right)\left(x+3\right)", 1),
    ("4, .1, 2", "0.1, 4, 2", 0),
    (".3", "0.3", 1),
    ("11", r"11\%", 1),
    (r"11\sqrt3 + \sqrt{5}", r"11\sqrt{3} + \sqrt5", 1),
    (r"\frac{3}{5}i", r"\frac35i", 1),
    (r"\frac{7}{3}", r"\tfrac73", 1),
    ("x + y - z + 3 = 0", "5x - 7y + 11z + 4 = 0", 0),
    (r"\frac{1}{2}", "1/2", 1),
]

#: Verdicts of other suites with which this grader does not agree: one case for each reason.
OTHER_VERDICTS = [
    ("2.74", "Soucis : 2,74 $ par mois", 1),
    ("$10455$", r"First, let's calculate the interest: it is $\boxed{455}$. So there are \$10,455 in the end.", 1),
    ("$\\begin{pmatrix}-\\\x0crac{7}{4}\\end{pmatrix}$", "$\\begin{pmatrix}-\\\x0crac{7}{4}\\end{pmatrix}$", 1),
    (r"$(\frac{3}{5},\frac{8}{3}]$", "$(0.6,2.6667]$", 1),
    ("$(1,3)$", "${1,3}$", 1),
    (r"$x \in [-2,7]$", r"$-2 \\le x \\le 7$", 0),
    ("$$(3, 3), (1, 1)$$", r"$$\boxed{(3, 3)} \text{ for part (a) and } \boxed{(1, 1)}$$", 1),
    ("1,22", "1.22", 1),
    (r"\\boxed{W(n) = 1 \\text{ and } W(n) = -1", "W(x)=1orW(x)=-1", 1),
    ("$f(x)$", "$f(y)$", 1),
    ("$AB=4,CD=5$", r"$\boxed{4, 5}$", 1),
    (r"$1 - \frac{1}{\mathrm{e}}$", r"$1 + \frac{1}{\mathrm{e}}$", 1),
    ("Answer is forty two.", "Answer is forty two.", None),
    ("Answer is forty three.", r"Some other content. \boxed{43}.", None),
    (r"\frac{63}{400}", r"Correct answer \frac{63}{400} but no reasoning", 0),
    ("$9$", "Answer $ \n 9 \n $", 0),
]


def grader_cases() -> Iterator[Row]:
    """Rows of a list of graders' cases."""
    sources = {"made up": CASES, "made up as hendrycks/math/": AS_STRINGS, "made up as other suites": OTHER_VERDICTS}
    for source, cases in sources.items():
        for gold, prediction, expected in cases:
            yield {"source": source, "gold": gold, "prediction": prediction, "expected": expected, "note": ""}
