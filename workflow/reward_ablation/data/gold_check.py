"""Check that a completion can be right by a gold: the gold is boxed as an answer, and graded against itself."""

from __future__ import annotations

import re

from reward_ablation.data.reading import Rows
from reward_ablation.system.errors import StudyError

_PUNCTUATION = re.compile(r"""[\s?!.,;:%$'"`_\\\u2026]*""")
_WHY = {
    "unparseable": "unreadable: braces, nesting, length or control characters",
    "error": "nothing in it to compare",
}
_NAMED = 3  # failing problems that the message names
_SHOWN = 50  # characters of a gold that it shows


def check_golds(rows: Rows, name: str) -> None:
    """Refuse golds that do not grade themselves as correct. `name` is what the message calls the set.

    The StudyError names the first failing problems with their golds and the reasons.
    """
    failing = {row["id"]: (row["answer"], why) for row in rows if (why := why_ungradable(row["answer"]))}
    if not failing:
        return
    named = list(failing.items())[:_NAMED]
    first = "; ".join(f"{problem}: {_shortened(gold)} ({why})" for problem, (gold, why) in named)
    count = "1 gold does not grade itself" if len(failing) == 1 else f"{len(failing)} golds do not grade themselves"
    more = ", …" if len(failing) > _NAMED else ""
    raise StudyError(
        f"{name}: {count} as correct: {first}{more}; a gold must be the answer alone: correct it in the data, "
        "or leave it empty to drop its problem"
    )


def why_ungradable(gold: str) -> str | None:
    r"""Reason why no completion could be right by this gold, or None.

    A gold in a box must be extracted whole and graded as correct. This fails if braces do not balance, for control
    characters, and for golds that are too long, nested too deep or empty after normalisation. A gold that contains a
    marker is a whole solution. A gold that passes starts no parser, because equal strings are equal.
    """
    from reward_ablation.rewards.grading import grade_answer
    from reward_ablation.rewards.grading.extraction import extract, marker_spans

    if _PUNCTUATION.fullmatch(gold):
        return "punctuation alone"
    markers = [span for answer_format in ("hash", "final", "tag") for span in marker_spans(gold, answer_format)]
    if markers:
        start, end = markers[0]
        return f"has {gold[start:end].strip()} inside"
    answer = extract(rf"\boxed{{{gold}}}", "boxed")
    if answer != (extract(gold, "boxed") or gold.strip()):  # a stray brace, which a parser may forgive
        return _WHY["unparseable"]
    status = grade_answer(answer, gold).status
    return None if status == "correct" else _WHY.get(status, f"{status} in a box")


def _shortened(gold: str) -> str:
    """The start of a gold in quotes, on one line, with escapes if a character cannot be seen."""
    short = gold if len(gold) <= _SHOWN else gold[: _SHOWN - 1] + "…"
    return f"'{short}'" if short.isprintable() else repr(short)
