"""The demo model's teacher: worked solutions that are deliberately sloppy, so that rewards have something to teach.

`demo` trains its tokenizer and its model on them. The teacher adds more often than not where it should multiply or
subtract. Sometimes it stops a step early. It marks its answer in one of three ways or not at all, and is sometimes
terse and sometimes chatty. It never miscalculates: reinforcement learning can choose between what a model can do
already, but teaches no arithmetic in the forty steps of the demo.
"""

from __future__ import annotations

import random
from itertools import islice

from reward_ablation.data.word_problems import OPERATORS, Problem, problems, work_out

#: The misconception, to add when in doubt, and the probability that it spoils all steps of a solution: above one half,
#: so that greedy answers are wrong at first, too. The other numbers are free choices: each habit is common enough that
#: sampled completions of a group differ in it.
CONFUSIONS = {"*": "+", "-": "+"}
CONFUSED = 0.55
#: Probability that the last step of a problem with two steps is forgotten.
LAST_STEP_FORGOTTEN = 0.20
#: Probabilities of the marker that the demo's component `format` asks for, and of the others; else there is no marker.
HASH_MARKER = 0.30
OTHER_MARKER = 0.45
#: Probabilities of bare calculations, and of full sentences with an opening and a closing; else plain sentences.
TERSE = 0.35
CHATTY = 0.20


def examples(count: int, seed: int) -> list[tuple[str, str]]:
    """`count` pairs of question and solution of the split `warm_start`, beyond its size with new solutions."""
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
        # One or two steps.
        lines = [f"{word} {_calculation(line)}" for word, line in zip(("First", "Then"), lines, strict=False)]
    elif manner < TERSE + CHATTY:
        lines = ["Step by step:", *lines, f"So {problem.name} counts {answer} {problem.thing}."]
    return "\n".join([*lines, *_marked(answer, source)])


def _with_mistakes(problem: Problem, source: random.Random) -> Problem:
    """The problem with confused operations, without its last step, with both mistakes, or with neither."""
    steps = problem.template.steps
    if source.random() < CONFUSED:
        steps = tuple(step._replace(operator=CONFUSIONS.get(step.operator, step.operator)) for step in steps)
    if len(steps) > 1 and source.random() < LAST_STEP_FORGOTTEN:
        steps = steps[:-1]
    return problem._replace(template=problem.template._replace(steps=steps))


def _calculation(line: str) -> str:
    return " ".join(word for word in line.split() if word in OPERATORS or word == "=" or word.isdigit())


def _marked(answer: int, source: random.Random) -> list[str]:
    """The line that states the answer; empty if the solution has no marker."""
    manner = source.random()
    if manner < HASH_MARKER:
        return [f"#### {answer}"]
    if manner < HASH_MARKER + OTHER_MARKER:
        return [source.choice([f"Answer: {answer}", f"The answer is {answer}."])]
    return []
