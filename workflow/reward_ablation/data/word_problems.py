"""Word problems made here: arithmetic of one or two steps like in GSM8K, for studies that need no download.

`sources` makes a set of `source: word_problems` by it, and the demo model's teacher takes its questions from it. A
problem is a template, its operands, a name and a thing. A hash of what is asked decides the split of each problem, and
a seed decides which problems of a split are taken. There is no random generator: the same arguments give the same
problems on every machine.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator
from itertools import chain, islice, product, zip_longest
from typing import Any, Literal, NamedTuple

from reward_ablation.system.errors import StudyError

Split = Literal["train", "test", "warm_start"]

OPERANDS = range(2, 10)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix")
THINGS = ("apples", "books", "cards", "pens", "shells", "stamps")

#: Fraction of all questions for the demo model's warm start, and, of the other questions, fraction of all calculations
#: for `train`; the rest is for `test`. Hashes decide, so that the sizes are near these fractions.
WARM_START = 0.6
TRAIN = 0.5


class Step(NamedTuple):
    """One calculation: `left` and `right` name operands, or are "last" for the result of the step before."""

    left: str
    operator: str
    right: str
    words: str  # a sentence; {sum} stands for the calculation


class Template(NamedTuple):
    """A kind of question and how it is worked out."""

    question: str
    steps: tuple[Step, ...]


class Problem(NamedTuple):
    """A template filled in."""

    template: Template
    operands: dict[str, int]
    name: str
    thing: str

    @property
    def question(self) -> str:
        """The text that is asked."""
        return self.template.question.format(name=self.name, thing=self.thing, **self.operands)


TEMPLATES = (
    Template(
        "{name} buys {a} boxes of {b} {thing} each. How many {thing} are there?",
        (Step("a", "*", "b", "The boxes hold {sum} {thing}."),),
    ),
    Template(
        "{name} buys {a} boxes of {b} {thing} each and finds {c} more. How many {thing} are there?",
        (
            Step("a", "*", "b", "The boxes hold {sum} {thing}."),
            Step("last", "+", "c", "With the others it is {sum} {thing}."),
        ),
    ),
    Template(
        "{name} has {a} {thing}, gets {b} more and gives away {c}. How many {thing} are left?",
        (
            Step("a", "+", "b", "First there are {sum} {thing}."),
            Step("last", "-", "c", "Then there are {sum} {thing}."),
        ),
    ),
    Template(
        "{name} has {a} {thing} and a friend has {b} times as many. How many {thing} do both have?",
        (
            Step("a", "*", "b", "The friend has {sum} {thing}."),
            Step("last", "+", "a", "Both have {sum} {thing}."),
        ),
    ),
)


def work_out(problem: Problem) -> tuple[list[str], list[int]]:
    """One sentence with its calculation for each step of a problem, and the result of each step."""
    lines: list[str] = []
    results: list[int] = []
    for step in problem.template.steps:
        values = {**problem.operands, "last": results[-1] if results else 0}
        left, right = values[step.left], values[step.right]
        results.append(OPERATORS[step.operator](left, right))
        calculation = f"{left} {step.operator} {right} = {results[-1]}"
        lines.append(step.words.format(sum=calculation, thing=problem.thing))
    return lines, results


def problems(seed: int, split: Split) -> Iterator[Problem]:
    """All problems of a split, in an order that the seed decides. Templates take turns while they last."""
    by_template = [sorted(_of_split(template, split), key=lambda item: _order(seed, item)) for template in TEMPLATES]
    return (item for item in chain.from_iterable(zip_longest(*by_template)) if item is not None)


def generate(count: int, seed: int, split: Split) -> list[dict[str, Any]]:
    """The first `count` problems of a split in the seed's order: `question`, `answer` in digits, worked `solution`."""
    chosen = list(islice(problems(seed, split), count))
    if len(chosen) < count:
        raise StudyError(
            f"word_problems: count: the {split} split has {len(chosen)} problems, not {count}; ask for fewer"
        )
    return [_row(problem) for problem in chosen]


def _row(problem: Problem) -> dict[str, Any]:
    lines, results = work_out(problem)
    solution = "\n".join([*lines, f"#### {results[-1]}"])
    return {"question": problem.question, "answer": str(results[-1]), "solution": solution}


def _of_split(template: Template, split: Split) -> Iterator[Problem]:
    letters = [letter for letter in "abc" if f"{{{letter}}}" in template.question]
    for numbers in product(OPERANDS, repeat=len(letters)):
        operands = dict(zip(letters, numbers, strict=True))
        for name, thing in product(NAMES, THINGS):
            problem = Problem(template, operands, name, thing)
            # Nobody gives away more than there is.
            if _split_of(problem) == split and min(work_out(problem)[1]) >= 0:
                yield problem


def _split_of(problem: Problem) -> Split:
    """The split by two hashes: of the question for the warm start, else of the calculation for train and test."""
    # So a test question is never a training question with other names or things. The warm start has problems with all
    # numbers, because so small a model cannot calculate with numbers that it has never seen.
    if _fraction(problem.question) < WARM_START:
        return "warm_start"
    return "train" if _fraction(f"{problem.template.question} {problem.operands}") < TRAIN else "test"


def _fraction(text: str) -> float:
    """Map a text to [0, 1), evenly and the same way everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32


def _order(seed: int, problem: Problem) -> float:
    return _fraction(f"{seed} {problem.question}")
