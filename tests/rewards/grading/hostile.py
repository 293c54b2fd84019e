r"""Generated hostile completions: text that a model may write by accident or under a reward's pressure.

`hostile_cases` draws from two kinds of families: rubbish, expensive or poisoned text that is no answer
(`hostile_text`, `hostile_mathematics`), and answers whose verdict is known, in hostile surroundings
(`hostile_answers`). Answers that are wrong and look right are in pinned_verdicts.tsv. Case number i depends on the seed
and i alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from . import hostile_answers, hostile_mathematics, hostile_text

#: Statuses that a text without an answer may get. It is never correct, and never an error, because the gold is sound.
REFUSED = frozenset({"wrong", "unparseable", "timeout"})

#: Golds that no family of rubbish can equal, one for each path through the grader: integer, fraction, words and LaTeX.
GOLDS = (
    "7919",
    r"\frac{355}{113}",
    r"\text{Evelyn}",
    r"\sqrt{1234577}",
    r"\left( 3, \frac{\pi}{7919} \right)",
    r"x^5 - 7919x + 1",
    r"\{-7919, 7907\}",
    r"(-\infty, -7919] \cup (7907, \infty)",
)


@dataclass(frozen=True)
class Case:
    """A completion, and the statuses that a sound grader may give it."""

    family: str
    completion: str
    gold: str
    answer_format: str
    allowed: frozenset[str]


#: Families of rubbish with their shares: texts that are put where the answer stands.
_TEXTS: tuple[tuple[Callable[[Random], str], float], ...] = (
    (hostile_mathematics.nesting, 4),
    (hostile_mathematics.towers, 5),
    (hostile_mathematics.factorials, 5),
    (hostile_mathematics.sums, 4),
    (hostile_mathematics.calculus, 1),
    (hostile_mathematics.matrices, 4),
    (hostile_text.null_bytes, 3),
    (hostile_text.broken_unicode, 3),
    (hostile_text.unbalanced, 6),
    (hostile_text.control_tokens, 4),
    (hostile_text.prompts, 4),
    (hostile_text.code, 6),
    (hostile_text.lookalikes, 4),
    (hostile_mathematics.numbers, 4),
    (hostile_mathematics.lists, 3),
    (hostile_mathematics.relations, 4),
    (hostile_text.backtracking, 4),
    (hostile_text.noise, 6),
)
#: Families of whole completions: text, gold, format and the right status, or two where an answer cannot be read.
_COMPLETIONS: tuple[tuple[Callable[[Random], tuple[str, str, str, str]], float], ...] = (
    (hostile_answers.right_in_disguise, 8),
    (hostile_answers.vanishing, 1),
    (hostile_answers.no_answer, 4),
)
_MEGABYTES_SHARE = 1.5
_FAMILIES = (*(family for family, _ in _TEXTS), *(family for family, _ in _COMPLETIONS), hostile_text.megabytes)
_SHARES = (*(share for _, share in _TEXTS), *(share for _, share in _COMPLETIONS), _MEGABYTES_SHARE)


def hostile_cases(count: int, seed: int) -> Iterator[Case]:
    """The first cases of a seed.

    Parameters
    ----------
    count : int
        Number of cases.
    seed : int
        Each seed gives other cases; one seed gives the same cases in every process.

    Yields
    ------
    Case
        Cases of all families, mixed. About one in a hundred takes a computer algebra system a second.
    """
    for number in range(count):
        yield hostile_case(seed, number)


def hostile_case(seed: int, number: int) -> Case:
    """The case with a number, without making the cases before it."""
    rng = Random(f"{seed}/{number}")
    family = rng.choices(_FAMILIES, _SHARES)[0]
    made = family(rng)
    if isinstance(made, tuple):
        completion, gold, answer_format, status = made
        return Case(family.__name__, completion, gold, answer_format, frozenset(status.split(" or ")))
    answer_format = rng.choices((*hostile_answers.FORMATS, "last_number"), (8, 2, 1, 1, 1))[0]
    completion = hostile_answers.marked(made, answer_format) if family is not hostile_text.megabytes else made
    return Case(family.__name__, completion, rng.choice(GOLDS), answer_format, REFUSED)
