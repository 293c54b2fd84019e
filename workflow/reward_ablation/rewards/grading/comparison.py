r"""Whether two answers are equal: by their exact values, else by their structure, else expression by expression.

Nothing here needs math-verify. Lists, sets, tuples and intervals are taken apart as text (`structure`). The remaining
expressions go to the caller's function `leaf`. `grader` comes first, in the process that asks, with a `leaf` that
decides nothing. What this leaves open goes to `math_worker`, whose `leaf` asks math-verify in a process that can be
killed. The conventions are a table in docs/evaluation.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Literal

from reward_ablation.rewards.grading import structure
from reward_ablation.rewards.grading.exact import (
    DATE,
    exact_value,
    has_value,
    same_value,
)
from reward_ablation.rewards.grading.extraction import bare_gold
from reward_ablation.rewards.grading.normalisation import (
    comparison_key,
    is_prose,
    normalise,
    units_differ,
    without_unit,
)

Status = Literal["correct", "wrong", "unparseable", "timeout", "error"]
#: Whether two expressions are equal (gold, answer); None if only a parser can decide.
Leaf = Callable[[str, str], bool | None]
#: The base of a number, as in 11_2.
_BASE = re.compile(r"(?<=\d) ?_(?: ?\{?\d+\}?$)?")
#: Several points in one number, as in 1.500.000 or 10.0.0.1.
_POINTS = re.compile(r"\d*\.\d+\.\d")
_COMMANDS_AND_LETTERS = re.compile(r"\\[a-zA-Z]+|[a-zA-Z]")
_REALS = r"(-\infty, \infty)"
#: What inequalities have and intervals have not; the word "or" is found as two letters.
_SIGNS = (r"\le", r"\ge", r"\ne", "or", "o", "r")
_TWO_SIGNS = re.compile(r"[-+] ?[-+]")
#: Longer lists are compared as text. All pairs of 60 parts take .8 s of CPU time; `math_worker` gives an answer 1 s.
MAX_PARTS = 60


def settle(gold: str, answer: str, leaf: Leaf) -> Status | None:
    """Status of an extracted answer; None if only `leaf`, which compares expressions, could decide and does not."""
    expected, given = normalise(bare_gold(gold)), normalise(answer)
    if not expected:
        return "error"
    if not given:
        return "unparseable"
    if units_differ(gold, answer):
        return "wrong"
    verdict = compare(expected, given, leaf)
    return None if verdict is None else "correct" if verdict else "wrong"


def compare(gold: str, answer: str, leaf: Leaf, *, nested: bool = False) -> bool | None:
    """Whether two normalised answers are equal; None if only `leaf` could decide. In lists (`nested`) 1 is not {1}."""
    if answer == gold or comparison_key(answer) == comparison_key(gold):
        return True
    if not nested and _equal_but_for_percent(gold, answer):
        return True
    if None not in (values := (exact_value(gold), exact_value(answer))):
        return values[0] == values[1]
    alike = _alike(gold, answer)
    if alike != (gold, answer):
        return compare(*alike, leaf, nested=nested) if alike else False
    named_gold, named_answer = structure.solutions(gold), structure.solutions(answer)
    if named_gold or named_answer:
        return _compare_solutions(named_gold, named_answer, gold, answer, leaf)
    gold_brackets, gold_parts = structure.parts(gold)
    brackets, answer_parts = structure.parts(answer)
    both, single = {gold_brackets, brackets}, len(gold_parts) == len(answer_parts) == 1
    if nested and "{}" in both and len(both) > 1:
        return False
    if single and both == {""}:
        return _compare_single(gold_parts[0], answer_parts[0], leaf)
    if single and both <= {"", "()", "{}"}:
        return r"\emptyset" not in gold + answer and compare(gold_parts[0], answer_parts[0], leaf)
    if both <= {"", "{}"}:
        if structure.conjunction(gold) != structure.conjunction(answer):
            return False
        several = len(gold_parts) > 1 and not all(map(structure.outer_brackets, gold_parts))
        return _compare_unordered(gold_parts, answer_parts, leaf, repeats=several and "" in both)
    if len(both) > 1 and both != {"", "()"}:
        # Brackets of one part can belong to an expression, [5] or (1): only a parser can tell.
        return single and _equal_expressions(gold, answer, leaf)
    return _compare_ordered(gold_parts, answer_parts, leaf)


def all_true(verdicts: list[bool | None]) -> bool | None:
    """False if a verdict is False; else None if a verdict is None; else True."""
    return False if False in verdicts else None if None in verdicts else True


def _compare_single(gold: str, answer: str, leaf: Leaf) -> bool | None:
    """Whether two answers that are no lists are equal; equations and inequalities are compared side by side."""
    relations = structure.is_relation(gold), structure.is_relation(answer)
    if relations == (False, True):
        exact = structure.sides(answer, r"\approx")[0]
        if exact != answer:
            return exact_value(exact) is None and compare(gold, exact, leaf)  # 4308 \approx 4873 is a guess
        values = [side for side in structure.sides(answer, "=") if not structure.is_name(side)]
        if [answer] != values and values:  # a chain, each side of which must be right: 1484 = 241 is no guess
            return _compare_ordered([gold] * len(values), values, leaf)
    if all(relations) and not any(map(structure.has_variables, (gold, answer))):
        expected, given = structure.sides(gold, "="), structure.sides(answer, "=")  # 5! = 120 is not 6! = 120
        return len(given) > 1 and _compare_ordered(expected, given, leaf)
    return False if _differ_in_signs(gold, answer) else _equal_expressions(gold, answer, leaf)


def _equal_expressions(gold: str, answer: str, leaf: Leaf) -> bool | None:
    """Whether two expressions are equal. Most wrong answers end here, without the parser."""
    if is_prose(gold) or is_prose(answer):
        return False
    if (verdict := same_value(gold, answer)) is not None:
        return verdict
    rows, gold_rows = structure.matrix(answer), structure.matrix(gold)
    if rows and gold_rows:
        same_shape = [*map(len, rows)] == [*map(len, gold_rows)]
        return same_shape and _compare_ordered([*chain(*gold_rows)], [*chain(*rows)], leaf)
    for text, matrix, other in ((gold, gold_rows, answer), (answer, rows, gold)):
        if (matrix or r"\cup" in text) and has_value(other):
            return False  # a matrix or a union of intervals is no number
    return leaf(gold, answer)


def _compare_solutions(
    gold: list[dict[str, str]] | None, answer: list[dict[str, str]] | None, gold_text: str, text: str, leaf: Leaf
) -> bool | None:
    """Whether values by name are equal, or equal to tuples in the alphabetical order of the names."""
    if gold and answer:
        return _matched([[_compare_named(expected, given, leaf) for given in answer] for expected in gold])
    named = gold or answer or []
    if any(key[:1] in ("", " ") for solution in named for key in solution):  # a unit, or no name
        return False
    other = text if gold else gold_text
    if len({name.partition("_")[0] for solution in named for name in solution}) == 1:  # x_1, x_2: one unknown
        values = ", ".join(value for solution in named for value in solution.values())
    elif all(map(structure.outer_brackets, [other] if len(named) == 1 else structure.parts(other)[1])):
        values = ", ".join(f"({', '.join(solution[name] for name in sorted(solution))})" for solution in named)
    else:
        return False
    return compare(values, other, leaf) if gold else compare(other, values, leaf)


def _compare_named(gold: dict[str, str], answer: dict[str, str], leaf: Leaf) -> bool | None:
    return gold.keys() == answer.keys() and all_true([compare(gold[k], answer[k], leaf, nested=True) for k in gold])


def _differ_in_signs(gold: str, answer: str) -> bool:
    """Whether two expressions differ in signs that the parser ignores: percent, primes, case, the order of names."""
    letters, gold_letters = ({*_COMMANDS_AND_LETTERS.findall(text)} for text in (answer, gold))
    return (
        any((sign in answer) != (sign in gold) for sign in ("%", r"\ldots"))
        or gold.count("'") != answer.count("'")
        # --33 is a slip or a dash, and +-33 may mean both signs
        or bool(_TWO_SIGNS.match(answer) and not _TWO_SIGNS.match(gold))
        # to the parser 8:30 is 4:15, and 11_2 is 11_3
        or any(":" in text or _BASE.search(text) for text in (gold, answer))
        # to the parser 1.500.000 is 1.5 times 0, and a date is a difference or a quotient
        or any(_POINTS.search(text) or DATE.fullmatch(text) for text in (gold, answer))
        # a choice, points or words: ABC is not CBA, E is not 2.718, and it is not ti
        or any(text.isupper() or len(text) > 1 for text in (gold, answer) if text.replace(" ", "").isalpha())
        or (letters != gold_letters and {*map(str.lower, letters)} == {*map(str.lower, gold_letters)})
    )


def _compare_ordered(gold: list[str], answer: list[str], leaf: Leaf) -> bool | None:
    if len(gold) != len(answer) or len(gold) > MAX_PARTS:
        return False
    return all_true([compare(*pair, leaf, nested=True) for pair in zip(gold, answer, strict=True)])


def _compare_unordered(gold: list[str], answer: list[str], leaf: Leaf, *, repeats: bool) -> bool | None:
    """Whether each part has an equal part on the other side; with `repeats`, as often as on its own side."""
    if repeats and len(gold) != len(answer):
        return False
    if max(len(gold), len(answer)) > MAX_PARTS:
        return sorted(map(comparison_key, gold)) == sorted(map(comparison_key, answer))
    verdicts = [[compare(expected, given, leaf, nested=True) for given in answer] for expected in gold]
    if not repeats or not _matched(verdicts):
        return _matched(verdicts)
    # Equality is transitive: equal parts of the gold have the same line.
    counts = [
        True if line.count(True) == verdicts.count(line) else None if None in line else False for line in verdicts
    ]
    return all_true(counts)


def _matched(verdicts: list[list[bool | None]]) -> bool | None:
    """Whether each line and each column of a table of verdicts has a True; None if that is undecided."""
    lines = [*verdicts, *zip(*verdicts, strict=True)]
    return all_true([True if True in line else None if None in line else False for line in lines])


def _alike(gold: str, answer: str) -> tuple[str, str] | None:
    """Two answers in the same notation, without units and labels; None if the labels differ."""
    # Labels stay if a value is a relation. An equation has no name: y = 2x and x = y/2 are alike.
    both = gold.replace(r"\mathbb{R}", _REALS), answer.replace(r"\mathbb{R}", _REALS)
    columns = _each(structure.column_as_tuple, both)
    if structure.outer_brackets(answer) == ("[", "]") and columns[0] != gold:
        both = columns[0], f"({answer[1:-1]})"  # a list of Python for a column vector
    elif any(text.startswith(("(", r"\langle")) for text in both):
        both = columns
    intervals = _each(structure.as_interval, both)
    same_letters = len({frozenset(_COMMANDS_AND_LETTERS.findall(text)) - {*_SIGNS} for text in both}) == 1
    mirrored = same_letters and all(map(str.__ne__, intervals, both))  # 0 < x < 1 and 1 > x > 0
    if mirrored or structure.is_interval(both[0]) != structure.is_interval(both[1]):
        both = intervals
    both = _each(without_unit, both)
    if _BASE.sub("", both[0]) == both[1]:
        both = both[1], both[1]
    names, bodies = zip(*map(structure.labelled, both), strict=True)
    if None not in names and names[0] != names[1] and {*names} != {"y", "f(x)"}:
        equations = all(structure.has_variables(body) or len(structure.parts(body)[1]) > 1 for body in bodies)
        return both if equations else None
    return both if any(map(structure.is_relation, bodies)) else bodies


def _each(change: Callable[[str], str], both: tuple[str, str]) -> tuple[str, str]:
    return change(both[0]), change(both[1])


def _equal_but_for_percent(gold: str, answer: str) -> bool:
    """Whether both answers are the same numbers, with percent signs in one answer only: 60% where GSM8K has 60."""
    with_sign, without = (gold, answer) if "%" in gold else (answer, gold)
    if "%" in without or not all("%" in part for part in structure.parts(with_sign)[1]):
        return False
    values = map(exact_value, (*structure.parts(with_sign)[1], *structure.parts(without)[1]))
    return None not in values and compare(with_sign.replace("%", ""), without, lambda *_: False) is True
