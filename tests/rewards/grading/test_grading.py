"""Verdicts: single answers, public data against itself, and bounds on what is compared."""

import json
import subprocess
import sys

import pytest

from public_data import gsm8k_gold, rows
from reward_ablation.rewards import Grade, extract_lenient, grade, grade_answer
from reward_ablation.rewards.grading.grader import is_malformed


@pytest.mark.parametrize(
    ("completion", "gold", "status"),
    [
        (r"so \boxed{72}", r"\boxed{72}", "correct"),  # a gold in a box
        (r"\boxed{\frac{1}{2006!}}", r"\frac{1}{2004!}", "wrong"),  # equal to math-verify
        (r"\boxed{+}", "72", "unparseable"),
        (r"\boxed{72}", "", "error"),  # no verdict without a gold
    ],
)
def test_grade(completion, gold, status):
    assert grade(completion, gold).status == status
    assert grade(r"\boxed{ 1,234 }", "1234") == Grade("correct", "1,234")  # as written


@pytest.mark.parametrize("name", ["gsm8k_train.jsonl", "gsm8k_test.jsonl"])
def test_every_gsm8k_solution_is_correct(name):
    problems = rows(name)
    wrong = [row["answer"] for row in problems if grade(row["answer"], gsm8k_gold(row), "hash").status != "correct"]
    wrong += [row["answer"] for row in problems if extract_lenient(row["answer"]) != gsm8k_gold(row)]
    assert wrong == []


def test_gsm8k_needs_no_worker_right_or_wrong():
    """In a fresh process: sympy takes longer to import than GSM8K to grade."""
    problems = rows("gsm8k_test.jsonl")
    golds = [gsm8k_gold(row) for row in problems]
    script = (
        "import json, sys\n"
        "from reward_ablation.rewards import grade_answer\n"
        "from reward_ablation.rewards.grading.math_worker import math_worker\n"
        "golds = json.load(sys.stdin)\n"
        "[grade_answer(a + end, g) for a, g in zip(golds, golds[1:]) for end in ('', '.00', ' dollars', '%')]\n"
        "print(math_worker.pid, [m for m in ('torch', 'sympy', 'math_verify', 'snakemake') if m in sys.modules])\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(golds), capture_output=True, text=True, check=True
    ).stdout
    assert output == "None []\n"


@pytest.mark.parametrize(
    ("name", "several"),
    [("math500.jsonl", 0), pytest.param("math_train.jsonl", 10, marks=[pytest.mark.slow, pytest.mark.long])],
)
def test_every_math_solution_is_correct_but_for_those_that_box_two_answers(name, several):
    """MATH takes the last box for the gold: of "$t = \\boxed{1/3}$ or $t = \\boxed{-5/2}$" only the second."""
    graded = [(row, grade(row["solution"], row["answer"])) for row in rows(name) if row["answer"]]
    others = [(row["solution"], result) for row, result in graded if result.status != "correct"]
    assert len(others) == several
    assert all(", " in result.answer and text.count(r"\boxed") > 1 for text, result in others)


def test_a_long_list_is_compared_with_its_like_in_no_time():
    """Pair by pair would take minutes, and in this process."""
    numbers = [str(number % 10) for number in range(990)]
    assert grade_answer(",".join(reversed(numbers)), ",".join(numbers)).status == "correct"
    assert grade_answer(",".join(["5", *numbers[1:]]), ",".join(numbers)).status == "wrong"


@pytest.mark.parametrize("brackets", [r"\{%s\}", "(%s)"])
def test_lists_in_lists_are_compared_part_by_part(brackets):
    """Nested as deep as allowed. A comparison that reads each level twice would never end."""
    answer = gold = "1"
    for level in range(19):
        answer, gold = brackets % f"1, {answer}", brackets % f"1, {gold}"
        assert grade_answer(answer, gold).status == "correct"
        assert grade_answer(answer, "7").status == "wrong"
        assert grade_answer(answer.replace("1", "7", 1), gold).status == "wrong", level
    for _ in range(3):
        answer = brackets % f"1, {answer}"
    assert grade_answer(answer, "1").status == "unparseable"


def test_is_malformed():
    assert not is_malformed("(0, 1]\n")  # brackets need not match, braces must
    for answer in ("x+" * 1001, "(" * 21 + "x" + ")" * 21, "{x", "}x{", "7\x002", "7\ud8002"):
        assert is_malformed(answer)
