"""For the component `instructions`: which of them a text follows, by the strict or the loose accuracy of IFEval."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import ValidationError, validate_call

from reward_ablation.rewards.instructions import checks
from reward_ablation.system.errors import StudyError

#: The instructions by their ids in IFEval's data. Each function is called by the keywords of the data.
CHECKS: dict[str, Callable[..., bool]] = {
    "keywords:existence": checks.existence,
    "keywords:frequency": checks.frequency,
    "keywords:forbidden_words": checks.forbidden_words,
    "keywords:letter_frequency": checks.letter_frequency,
    "length_constraints:number_words": checks.number_words,
    "length_constraints:number_sentences": checks.number_sentences,
    "length_constraints:number_paragraphs": checks.number_paragraphs,
    "length_constraints:nth_paragraph_first_word": checks.nth_paragraph_first_word,
    "detectable_content:number_placeholders": checks.number_placeholders,
    "detectable_content:postscript": checks.postscript,
    "detectable_format:number_bullet_lists": checks.number_bullet_lists,
    "detectable_format:constrained_response": checks.constrained_response,
    "detectable_format:number_highlighted_sections": checks.number_highlighted_sections,
    "detectable_format:multiple_sections": checks.multiple_sections,
    "detectable_format:json_format": checks.json_format,
    "detectable_format:title": checks.title,
    "combination:two_responses": checks.two_responses,
    "combination:repeat_prompt": checks.repeat_prompt,
    "startend:end_checker": checks.end_checker,
    "startend:quotation": checks.quotation,
    "change_case:capital_word_frequency": checks.capital_word_frequency,
    "change_case:english_capital": checks.english_capital,
    "change_case:english_lowercase": checks.english_lowercase,
    "punctuation:no_comma": checks.no_comma,
}
_CHECKED = {name: validate_call(check) for name, check in CHECKS.items()}


def share_followed(text: str, instructions: Any, strict: bool) -> float | None:
    """Share in [0, 1] of a problem's instructions that a text follows.

    None if there are no instructions, or if one of them has an id that is not in `CHECKS`. An empty text follows no
    instruction.

    Each instruction is `{"id": ..., "kwargs": {...}}`, where keywords that are None count as left out. With `strict`,
    the text itself must follow an instruction. Otherwise any of its `variants` may follow it. StudyError if
    `instructions` is not a list of these, or if the function of an instruction does not take its keywords.
    """
    known = [_known(instruction) for instruction in _listed(instructions)]
    if not known or None in known:
        return None
    texts = [text] if strict else variants(text)
    followed = [
        any(_CHECKED[name](variant, **kwargs) for variant in texts if variant.strip())
        for name, kwargs in filter(None, known)
    ]
    return sum(followed) / len(followed)


def variants(text: str) -> list[str]:
    """The eight texts of the loose accuracy (section 2.3 of the paper).

    These are the text, the text without its first line, without its last line, and without both; then each of these
    four without stars.
    """
    lines = text.split("\n")
    cut = [text, *("\n".join(kept).strip() for kept in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*cut, *(variant.replace("*", "") for variant in cut)]


def _listed(instructions: Any) -> list[Any]:
    if instructions is None:
        return []
    if not isinstance(instructions, list):
        raise StudyError(
            f'instructions: the column holds a {type(instructions).__name__}; it must hold a list of {{"id": ..., '
            '"kwargs": {...}}'
        )
    return instructions


def _known(instruction: Any) -> tuple[str, dict[str, Any]] | None:
    """Id and keywords of an instruction, checked; None if the id is unknown."""
    if not isinstance(instruction, dict) or not isinstance(instruction.get("id"), str):
        raise StudyError('instructions: each instruction must be an object {"id": ..., "kwargs": {...}}')
    name, kwargs = instruction["id"], instruction.get("kwargs")
    if not isinstance(kwargs, dict | None):
        raise StudyError(f"instructions: {name!r}: kwargs must be an object, such as {{}}")
    if name not in CHECKS:
        _warn_unknown(name[:80])
        return None
    given = {key: value for key, value in (kwargs or {}).items() if value is not None}
    try:
        _CHECKED[name]("", **given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "kwargs"
        raise StudyError(f"instructions: {name}: {where[:80]!r}: {first['msg']}") from None
    return name, given


@cache
def _warn_unknown(name: str) -> None:
    """Print, once per process, that an instruction is not checked."""
    print(
        f"instructions: {name!r} is not checked by this workflow: completions of problems with it have no score",
        file=sys.stderr,
        flush=True,
    )
