"""The demo model's teacher: worked solutions that are deliberately sloppy, so that rewards have something to teach.

It adds where it should multiply or take away more often than not, sometimes stops a step early, marks its answer in
one of three ways or not at all, and is now terse and now chatty. It never miscalculates: reinforcement learning can
choose between what a model knows to do, but teaches it no arithmetic in forty steps.
"""

from __future__ import annotations

import random
from itertools import islice

from reward_ablation.data.word_problems import OPERATORS, Problem, problems, work_out

#: The misconception: when in doubt, add. Above one half, so that greedy answers are wrong at first, too.
CONFUSIONS = {"*": "+", "-": "+"}
CONFUSED = 0.55
#: Of the problems that have two steps.
LAST_STEP_FORGOTTEN = 0.20
#: The marker that the study's format component asks for, and the others; no marker in what remains.
HASH_MARKER = 0.30
OTHER_MARKER = 0.45
#: Bare calculations, and full sentences with an opening and a closing; plain sentences in what remains.
TERSE = 0.35
CHATTY = 0.20


def examples(count: int, seed: int) -> list[tuple[str, str]]:
    """Write the teacher's questions and solutions.

    Parameters
    ----------
    count : int
        How many; beyond the size of the warm-start split questions come again, with solutions of their own.
    seed : int
        Which questions, and what goes wrong in which.

    Returns
    -------
    list of (question, solution)
        Questions of the `warm_start` split only. Nothing marks the end of a solution.
    """
    pool = list(islice(problems(seed, "warm_start"), count))
    source = random.Random(f"teacher {seed}")
    return [(problem.question, solve(problem, source)) for problem in (pool * -(-count // len(pool)))[:count]]


def solve(problem: Problem, source: random.Random) -> str:
    """Write one sloppy solution."""
    problem = _with_mistakes(problem, source)
    lines, results = work_out(problem)
    answer = results[-1]
    manner = source.random()
    if manner < TERSE:
        lines = [f"{word} {_calculation(line)}" for word, line in zip(("First", "Then"), lines, strict=False)]
    elif manner < TERSE + CHATTY:
        lines = ["Step by step:", *lines, f"So {problem.name} counts {answer} {problem.thing}."]
    return "\n".join([*lines, *_marked(answer, source)])


def _with_mistakes(problem: Problem, source: random.Random) -> Problem:
    """Confuse the operations, forget the last step, both, or neither."""
    steps = problem.template.steps
    if source.random() < CONFUSED:
        steps = tuple(step._replace(operator=CONFUSIONS.get(step.operator, step.operator)) for step in steps)
    if len(steps) > 1 and source.random() < LAST_STEP_FORGOTTEN:
        steps = steps[:-1]
    return problem._replace(template=problem.template._replace(steps=steps))


def _calculation(line: str) -> str:
    return " ".join(word for word in line.split() if word in OPERATORS or word == "=" or word.isdigit())


def _marked(answer: int, source: random.Random) -> list[str]:
    """Draw the line that states the answer, if any."""
    manner = source.random()
    if manner < HASH_MARKER:
        return [f"#### {answer}"]
    if manner < HASH_MARKER + OTHER_MARKER:
        return [source.choice([f"Answer: {answer}", f"The answer is {answer}."])]
    return []
