"""Cases of the test suites of public graders. The verdicts agree, or the case is listed here with the reason."""

import re

from public_data import rows
from reward_ablation.rewards import extract, extract_lenient, grade_answer

#: Why the verdict here is another than the suite's: the start of the gold and of the prediction.
DIFFERENT = {
    "a decimal comma: English text has commas between thousands": [("2.74", "Soucis : 2,74 $"), ("1000.99", "1000,99")],
    "the box holds another number than the sentence after it": [("$10455$", "First, let's calculate the interest")],
    r"the suite's own mistake: an escape turned \frac into a form feed": [(r"$\begin{pmatrix}-", r"$\begin{pmatrix}-")],
    "a rounded decimal is not the fraction": [
        (r"$\frac{1}{12}$", "$0.0833333333333333$"),
        (r"$(\begin{pmatrix}\frac{1}{3}", r"$\begin{pmatrix}0.33"),
        (r"$(\frac{3}{5},\frac{8}{3}]$", "$(0.6,2.6667]$"),
    ],
    "a tuple is not a set": [("$(1,3)$", "${1,3}$")],
    "one set, as an inequality and as an interval; that suite keeps them apart": [
        (r"$x \in [-2,7]$", r"$-2 \\le x \\le 7$")
    ],
    "words between boxes, or none at all: the last box is the answer": [
        (r"$\\boxed{35 cm} ++++++", "${35 cm,4}$"),
        ("$$(3, 3), (1, 1)$$", r"$$\boxed{(3, 3)} \text{ for part (a)"),
        (r"\boxed{1} papers and", r"$\boxed{1,2}$"),
    ],
    "a comma in a gold separates: 1,22 are two numbers": [("1,22", "1.22")],
    "W(n) and W(x): a letter is not renamed": [(r"\\boxed{W(n) = 1", "W(x)=1orW(x)=-1")],
    "another variable is another function": [("$f(x)$", "$f(y)$")],
    "the suite's own mistake: 1 - 1/e is not 1 + 1/e": [(r"$1 - \frac{1}{\mathrm{e}}$", r"$1 + \frac{1}{\mathrm{e}}$")],
    "a bare list has no order; that suite compares strings": [("4, 10, -2", "10, 4, -2"), ("4, .1, 2", "0.1, 4, 2")],
    "the same words; that suite refuses a gold without a formula": [("Answer is forty two.", "Answer is forty two.")],
    "a gold in words: no answer equals it, and that is wrong, not unreadable": [
        ("Answer is forty three.", r"Some other content. \boxed{43}.")
    ],
    "that suite asks for reasoning tags; the answer is right": [
        (r"\frac{63}{400}", r"Correct answer \frac{63}{400} but")
    ],
    "a bare list does not say which value belongs to which name": [
        ("$AB=4,CD=5$", r"$\boxed{4, 5}$"),
        (r"\boxed{x = -5,\ p", r"$\boxed{-5, \frac{14}{3}}$"),
    ],
    "that suite finds no answer in such brackets; it is there": [
        ("$9$", "Answer $ \n 9 \n $"),
        ("$9$", "Answer \\( \n 9 \n \\)"),
    ],
}


def answer_of_case(text):
    """The answer in a case: its box or tag, its last formula or number in prose, else the whole text."""
    marked = extract(text, "boxed") or extract(text, "tag")
    if marked is not None:
        return marked
    prose = re.search(r"^[A-Z][a-z]{3,} |(?:[A-Za-z']+ ){3}", text) is not None
    return (extract_lenient(text) or text) if prose else text


def agrees(case):
    status = grade_answer(answer_of_case(case["prediction"]), answer_of_case(case["gold"])).status
    return status in {1: {"correct"}, 0: {"wrong", "unparseable"}, None: {"unparseable"}}[case["expected"]]


def test_every_case_agrees_or_is_listed_and_no_reason_is_left_over():
    different = [(case["gold"], case["prediction"]) for case in rows("grader_cases.jsonl") if not agrees(case)]
    listed = [start for starts in DIFFERENT.values() for start in starts]
    used = {case: start for case in different for start in listed if all(map(str.startswith, case, start))}
    assert [case for case in different if case not in used] == []
    assert {reason for reason, starts in DIFFERENT.items() if {*starts} & {*used.values()}} == {*DIFFERENT}
