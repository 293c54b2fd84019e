"""Cases of the test suites of public graders. The verdicts agree, or the case is listed here with the reason."""

import re

from public_data import rows
from reward_ablation.rewards import extract, extract_lenient, grade_answer

DECIMALS = "a rounded decimal is not the fraction"
UNORDERED = "a bare list has no order; that suite compares strings"
SETS = "a tuple is not a set"
WORDS_BETWEEN = "words between boxes, or none at all: the last box is the answer"
SEVERAL_ANSWERS = "the box holds another number than the sentence after it"
RELATIONS = "one set, as an inequality and as an interval; that suite keeps them apart"
EUROPEAN = "a decimal comma: English text has commas between thousands"
CONTROL_CHARACTER = r"the suite's own mistake: an escape turned \frac into a form feed"
OTHER_VARIABLE = "another variable is another function"
OTHER_FUNCTION = "W(n) and W(x): a letter is not renamed"
LIST = "a comma in a gold separates: 1,22 are two numbers"
OTHER_SIGN = "the suite's own mistake: 1 - 1/e is not 1 + 1/e"
SAME_WORDS = "the same words; that suite refuses a gold without a formula"
NO_FORMULA = "a gold in words: no answer equals it, and that is wrong, not unreadable"
REASONING = "that suite asks for reasoning tags; the answer is right"
NAMES = "a bare list does not say which value belongs to which name"
NO_ANCHOR = "that suite finds no answer in such brackets; it is there"

#: (start of the gold, start of the prediction): why the verdict here is another than the suite's.
DIFFERENT = {
    ("2.74", "Soucis : 2,74 $"): EUROPEAN,
    ("$10455$", "First, let's calculate the interest"): SEVERAL_ANSWERS,
    (r"$\begin{pmatrix}-", r"$\begin{pmatrix}-"): CONTROL_CHARACTER,
    ("1000.99", "1000,99"): EUROPEAN,
    (r"$\frac{1}{12}$", "$0.0833333333333333$"): DECIMALS,
    (r"$(\begin{pmatrix}\frac{1}{3}", r"$\begin{pmatrix}0.33"): DECIMALS,
    (r"$(\frac{3}{5},\frac{8}{3}]$", "$(0.6,2.6667]$"): DECIMALS,
    ("$(1,3)$", "${1,3}$"): SETS,
    (r"$x \in [-2,7]$", r"$-2 \\le x \\le 7$"): RELATIONS,
    (r"$\\boxed{35 cm} ++++++", "${35 cm,4}$"): WORDS_BETWEEN,
    ("$$(3, 3), (1, 1)$$", r"$$\boxed{(3, 3)} \text{ for part (a)"): WORDS_BETWEEN,
    (r"\boxed{1} papers and", r"$\boxed{1,2}$"): WORDS_BETWEEN,
    ("1,22", "1.22"): LIST,
    (r"\\boxed{W(n) = 1", "W(x)=1orW(x)=-1"): OTHER_FUNCTION,
    ("$f(x)$", "$f(y)$"): OTHER_VARIABLE,
    (r"$1 - \frac{1}{\mathrm{e}}$", r"$1 + \frac{1}{\mathrm{e}}$"): OTHER_SIGN,
    ("4, 10, -2", "10, 4, -2"): UNORDERED,
    ("4, .1, 2", "0.1, 4, 2"): UNORDERED,
    ("Answer is forty two.", "Answer is forty two."): SAME_WORDS,
    ("Answer is forty three.", r"Some other content. \boxed{43}."): NO_FORMULA,
    (r"\frac{63}{400}", r"Correct answer \frac{63}{400} but"): REASONING,
    ("$AB=4,CD=5$", r"$\boxed{4, 5}$"): NAMES,
    (r"\boxed{x = -5,\ p", r"$\boxed{-5, \frac{14}{3}}$"): NAMES,
    ("$9$", "Answer $ \n 9 \n $"): NO_ANCHOR,
    ("$9$", "Answer \\( \n 9 \n \\)"): NO_ANCHOR,
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
    starts = {case: start for case in different for start in DIFFERENT if all(map(str.startswith, case, start))}
    assert [case for case in different if case not in starts] == []
    assert {DIFFERENT[start] for start in starts.values()} == {*DIFFERENT.values()}
