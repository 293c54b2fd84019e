"""The demo model's teacher: worked solutions that are deliberately sloppy, so that rewards have something to teach.

A quarter to a third of the answers carry the `#### N` marker, four in ten are right, and the length is anyone's guess.
The rates are the knobs of the demo: see docs/demo.md.
"""

from __future__ import annotations

import random
from itertools import islice
from typing import NamedTuple

from reward_ablation.data.word_problems import OPERATORS, Problem, problems, work_out

#: The teacher's misconception: when in doubt, add.
CONFUSIONS = {"*": "+", "-": "+"}


class Habits(NamedTuple):
    """How often the teacher does what; rates in [0, 1]."""

    confused: float = 0.50
    forgotten_step: float = 0.40
    hash_marker: float = 0.30
    other_marker: float = 0.45
    terse: float = 0.35
    chatty: float = 0.20


def examples(count: int, seed: int, habits: Habits = Habits()) -> list[tuple[str, str]]:
    """Write the teacher's questions and completions.

    Parameters
    ----------
    count : int
        How many; above the size of the warm-start split questions come again, with another solution.
    seed : int
        Which questions, and what goes wrong in which.

    Returns
    -------
    list of (question, completion)
        Questions of the `warm_start` split only. Completions end without an end-of-sequence token.
    """
    pool = list(islice(problems(seed, "warm_start"), count))
    source = random.Random(f"teacher {seed}")
    return [(problem.question, solve(problem, source, habits)) for problem in (pool * -(-count // len(pool)))[:count]]


def solve(problem: Problem, source: random.Random, habits: Habits = Habits()) -> str:
    """Write one sloppy solution."""
    problem = _with_mistakes(problem, source, habits)
    lines, results = work_out(problem)
    answer = results[-1]
    manner = source.random()
    if manner < habits.terse:
        # First 2 * 5 = 10, then 10 + 7 = 17: the calculations alone.
        lines = [f"{word} {_calculation(line)}" for word, line in zip(("First", "Then"), lines, strict=False)]
    elif manner < habits.terse + habits.chatty:
        lines = [
            "Let us work it out step by step.",
            *lines,
            f"So {problem.name} counts {answer} {problem.thing} in the end.",
        ]
    return "\n".join([*lines, *_marked(answer, source, habits)])


def _calculation(line: str) -> str:
    return " ".join(word for word in line.split() if word in {*OPERATORS, "="} or word.isdigit())


def _with_mistakes(problem: Problem, source: random.Random, habits: Habits) -> Problem:
    """Confuse the operation, forget the last step, both, or neither."""
    steps = problem.template.steps
    if source.random() < habits.confused:
        steps = tuple(step._replace(operator=CONFUSIONS.get(step.operator, step.operator)) for step in steps)
    if len(steps) > 1 and source.random() < habits.forgotten_step:
        steps = steps[:-1]
    return problem._replace(template=problem.template._replace(steps=steps))


def _marked(answer: int, source: random.Random, habits: Habits) -> list[str]:
    """Draw the line that states the answer; none is a habit too."""
    manner = source.random()
    if manner < habits.hash_marker:
        return [f"#### {answer}"]
    if manner < habits.hash_marker + habits.other_marker:
        return [source.choice([f"Answer: {answer}", f"The answer is {answer}."])]
    return []
