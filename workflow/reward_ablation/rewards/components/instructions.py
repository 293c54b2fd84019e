"""Instructions whose following a program can verify (Zhou et al. 2023, arXiv 2311.07911).

There is one function for each instruction of table 1 of the paper but the language of the response. The arguments have
the names in IFEval's data. The code is this workflow's own. No regular expression reads a character often, in any text.

The component `instructions` needs problems with a column of instructions, such as the data set `ifeval`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import NonNegativeInt, PositiveInt, StringConstraints, ValidationError, validate_call

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.system.errors import StudyError

Relation = Literal["at least", "less than"]
#: Bounded, because searching a hostile text for a longer phrase would take long.
Phrase = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Letter = Annotated[str, StringConstraints(min_length=1, max_length=1)]

_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
#: How the published checker finds its two marks of a postscript. Any other mark is searched for as it is.
_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}
#: How a fenced block may open, in the spellings that the published checker takes. They are removed in this order.
_FENCES = ("```json", "```Json", "```JSON", "```")
#: Characters that may stand between the mark at the end of a sentence and the space after it.
_CLOSING = "\"'”’»)]}*_`"
_OPENING = "\"'“‘«([{*_`"
_ENDS = (".", "!", "?", "…", "。", "！", "？")
#: Abbreviations that end no sentence, whatever follows: titles, and words before a name or a number.
_ABBREVIATIONS = frozenset(
    word
    for words in (
        ("mr", "mrs", "ms", "dr", "prof", "st", "rev", "gen", "col", "sgt", "capt", "lt", "gov", "sen", "rep"),
        ("vs", "e.g", "i.e", "cf", "ca", "approx", "fig", "figs", "eq", "eqs", "vol", "vols", "pp", "ed", "eds"),
        ("jan", "feb", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov"),
    )
    for word in words
)
_HIGHLIGHTS = (re.compile(r"\*[^\n*]*\*"), re.compile(r"\*\*[^\n*]*\*\*"))
#: A word may contain hyphens and apostrophes: WELL-KNOWN is one word.
_WORD = re.compile(r"\w+(?:[-'’]\w+)*")


def instructions(
    completions: list[Completion],
    *,
    column: str = "instructions",
    strict: bool = True,
    partial: bool = False,
    **columns: Any,
) -> list[float | None]:
    """1 where the completion follows all instructions of its problem, else 0; with `partial` the share it follows.

    None where the problem has no instructions, or has an instruction that the workflow does not check. In IFEval that
    is `language:response_language`.

    Parameters
    ----------
    column : str
        Column of the data: for each problem a list of `{"id": ..., "kwargs": {...}}`, as in IFEval.
    strict : bool
        True: judge the text as it is. False: an instruction counts as followed if any of eight variants of the text
        follows it. These are the whole text, the text without its first line, its last line or both, and each of these
        four without stars.
    partial : bool
        Score the share of the instructions that the completion follows.

    Notes
    -----
    Source: Zhou et al. 2023, arXiv 2311.07911: strict and loose accuracy by prompt; with `partial`, by instruction.
    """
    texts = completion_texts(completions)
    shares = [share_followed(text, asked, strict) for text, asked in zip(texts, columns[column], strict=True)]
    return [share if share is None or partial else float(share == 1) for share in shares]


def _holds(count: int, relation: Relation, number: int) -> bool:
    return count >= number if relation == "at least" else count < number


def existence(text: str, keywords: list[Phrase]) -> bool:
    """Each keyword stands in the text, also inside a word; case is ignored."""
    lowered = text.lower()
    return all(keyword.lower() in lowered for keyword in keywords)


def frequency(text: str, keyword: Phrase, frequency: NonNegativeInt, relation: Relation) -> bool:
    """The keyword stands at least, or less than, `frequency` times in the text, also inside words; case is ignored."""
    return _holds(text.lower().count(keyword.strip().lower()), relation, frequency)


def forbidden_words(text: str, forbidden_words: list[Phrase]) -> bool:
    """None of the words stands in the text as a whole word; case is ignored."""
    return not any(_contains_word(text.lower(), word.lower()) for word in forbidden_words)


def letter_frequency(text: str, letter: Letter, let_frequency: NonNegativeInt, let_relation: Relation) -> bool:
    """The letter stands at least, or less than, `let_frequency` times in the text; case is ignored."""
    return _holds(text.lower().count(letter.lower()), let_relation, let_frequency)


def number_words(text: str, num_words: NonNegativeInt, relation: Relation) -> bool:
    """The text has at least, or less than, `num_words` words; `well-known` counts as two."""
    return _holds(len(re.findall(r"\w+", text)), relation, num_words)


def number_sentences(text: str, num_sentences: NonNegativeInt, relation: Relation) -> bool:
    """The text has at least, or less than, `num_sentences` sentences."""
    return _holds(_count_sentences(text), relation, num_sentences)


def number_paragraphs(text: str, num_paragraphs: PositiveInt) -> bool:
    """The text has exactly `num_paragraphs` paragraphs, divided by `***`."""
    return len(_parts_between(text, "***")) == num_paragraphs


def nth_paragraph_first_word(
    text: str, num_paragraphs: PositiveInt, nth_paragraph: PositiveInt, first_word: Phrase
) -> bool:
    """The text has exactly `num_paragraphs` paragraphs, divided by empty lines; the n-th starts with `first_word`.

    An empty paragraph is not one of the `num_paragraphs`, but it counts for the n-th, as in the published checker. The
    first word is without quotation marks before it, and ends at a punctuation mark.
    """
    paragraphs = text.split("\n\n")
    if sum(bool(paragraph.strip()) for paragraph in paragraphs) != num_paragraphs or nth_paragraph > num_paragraphs:
        return False
    words, word = paragraphs[nth_paragraph - 1].split(maxsplit=1), first_word.lower()
    first = words[0].lstrip("'").lstrip('"').lower() if words else ""
    return first.startswith(word) and first[len(word) : len(word) + 1] in ("", *".,?!'\"")


def number_placeholders(text: str, num_placeholders: NonNegativeInt) -> bool:
    """The text has at least `num_placeholders` placeholders in square brackets, such as `[address]`."""
    return sum(map(_count_brackets, text.split("\n"))) >= num_placeholders


def postscript(text: str, postscript_marker: Phrase) -> bool:
    """The text has a postscript with this marker; case is ignored."""
    pattern = _POSTSCRIPTS.get(postscript_marker.strip(), re.escape(postscript_marker.strip().lower()))
    return re.search(pattern, text.lower()) is not None


def number_bullet_lists(text: str, num_bullets: NonNegativeInt) -> bool:
    """The text has exactly `num_bullets` lines that start with `-`, or with a single `*`.

    White space before them is ignored. As in the published checker, a `*` alone on its line counts only if a line
    follows it, which then counts only if it starts with `-`.
    """
    lines = [line.lstrip() for line in text.split("\n")]
    count, following = sum(line.startswith("-") for line in lines), iter(lines)
    for line in following:
        if line == "*":
            count += next(following, None) is not None
        else:
            count += line.startswith("*") and line[1] != "*"
    return count == num_bullets


def constrained_response(text: str) -> bool:
    """The text has one of the three answers of IFEval: yes, no or maybe."""
    return any(answer in text for answer in _ANSWERS)


def number_highlighted_sections(text: str, num_highlights: NonNegativeInt) -> bool:
    """The text has at least `num_highlights` sections between stars on one line.

    `*so*` and `**so**` count once, `***so***` counts as both.
    """
    found = [section for pattern in _HIGHLIGHTS for section in pattern.findall(text)]
    return sum(bool(section.strip("*").strip()) for section in found) >= num_highlights


def multiple_sections(text: str, section_spliter: Phrase, num_sections: NonNegativeInt) -> bool:
    """The text has at least `num_sections` marks such as `Section 1`, wherever they stand; each counts as a section."""
    return len(re.findall(rf"{re.escape(section_spliter.strip())}\s?\d+", text)) >= num_sections


def json_format(text: str) -> bool:
    """The whole text is JSON, by itself or in a fenced block."""
    text = text.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```"))
    except (ValueError, RecursionError):  # RecursionError for deeply nested lists
        return False
    return True


def title(text: str) -> bool:
    """A line of the text has a title between `<<` and `>>`."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end - 2 and line[start:end].lstrip("<").rstrip(">").strip():
            return True
    return False


def two_responses(text: str) -> bool:
    """The text consists of two different responses, divided by six stars."""
    responses = _parts_between(text, "******")
    return len(responses) == 2 and responses[0] != responses[1]


def repeat_prompt(text: str, prompt_to_repeat: str) -> bool:
    """The text starts with the prompt; case is ignored."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def end_checker(text: str, end_phrase: str) -> bool:
    """The text ends with the phrase; case is ignored, and a quotation mark may follow."""
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def quotation(text: str) -> bool:
    """The whole text is between double quotation marks."""
    text = text.strip()
    return len(text) > 1 and text.startswith('"') and text.endswith('"')


def capital_word_frequency(text: str, capital_frequency: NonNegativeInt, capital_relation: Relation) -> bool:
    """At least, or less than, `capital_frequency` words of the text are in capital letters."""
    return _holds(sum(map(str.isupper, _WORD.findall(text))), capital_relation, capital_frequency)


def english_capital(text: str) -> bool:
    """All letters of the text are capital letters; the language is not checked."""
    return text.isupper()


def english_lowercase(text: str) -> bool:
    """All letters of the text are small letters; the language is not checked."""
    return text.islower()


def no_comma(text: str) -> bool:
    """The text has no comma."""
    return "," not in text


def _count_sentences(text: str) -> int:
    """Number of sentences. A sentence ends with a mark before white space, or with the text.

    A full stop ends no sentence after one of `_ABBREVIATIONS`, a single letter (an initial) or the number of an item in
    a list. If the next word starts with a small letter, three more marks end no sentence: the stop of "etc." or of an
    abbreviation with stops inside, an ellipsis, and a mark inside quotation marks or brackets. The end of a line ends
    no sentence: a heading without a mark belongs to the sentence after it. Chinese and Japanese marks need no space.
    """
    words = re.sub("([。！？]+)", r"\1 ", text).split()
    count, begun = 0, False
    for word, following in pairwise([*words, ""]):
        bare = word.rstrip(_CLOSING)
        is_number = not begun and bare[:-1].isdigit()  # of an item in a list
        begun = begun or any(map(str.isalnum, bare))
        if begun and bare.endswith(_ENDS) and not (following and (is_number or _goes_on(word, bare, following))):
            count, begun = count + 1, False
    return count + begun


def _goes_on(word: str, bare: str, following: str) -> bool:
    """Whether a sentence goes on after a word that ends with a mark; `bare` is the word without closing characters."""
    stem = bare.lstrip(_OPENING)[:-1].lower()
    if bare.endswith(".") and (stem in _ABBREVIATIONS or (len(stem) == 1 and stem.isalpha())):
        return True
    if not following.lstrip(_OPENING)[:1].islower():
        return False
    return word != bare or bare.endswith(("..", "…")) or stem == "etc" or "." in stem


def _parts_between(text: str, divider: str) -> list[str]:
    """Parts of a text between dividers, stripped, without an empty first or last one; none if another one is empty."""
    parts = [part.strip() for part in text.split(divider)]
    if not parts[0]:
        parts = parts[1:]
    if parts and not parts[-1]:
        parts = parts[:-1]
    return parts if all(parts) else []


def _count_brackets(line: str) -> int:
    """Number of square brackets that open and close on a line."""
    count, start = 0, line.find("[")
    while start >= 0 and (end := line.find("]", start)) >= 0:
        count += 1
        start = line.find("[", end)
    return count


def _contains_word(text: str, word: str) -> bool:
    return word in text and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


_GROUPS: dict[str, tuple[Callable[..., bool], ...]] = {
    "keywords": (existence, frequency, forbidden_words, letter_frequency),
    "length_constraints": (number_words, number_sentences, number_paragraphs, nth_paragraph_first_word),
    "detectable_content": (number_placeholders, postscript),
    "detectable_format": (
        *(number_bullet_lists, constrained_response, number_highlighted_sections),
        *(multiple_sections, json_format, title),
    ),
    "combination": (two_responses, repeat_prompt),
    "startend": (end_checker, quotation),
    "change_case": (capital_word_frequency, english_capital, english_lowercase),
    "punctuation": (no_comma,),
}
#: The instructions by their ids in IFEval's data, such as `keywords:existence`. Each takes the keywords of the data.
CHECKS = {f"{group}:{check.__name__}": check for group, checks in _GROUPS.items() for check in checks}
_CHECKED = {name: validate_call(check) for name, check in CHECKS.items()}


def share_followed(text: str, instructions: Any, strict: bool) -> float | None:
    """Share in [0, 1] of a problem's instructions that a text follows.

    None without instructions, and with an instruction whose id is not in `CHECKS`. An empty text follows none.

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
    """The eight texts of the loose accuracy (section 2.3): without first line, last line or both, and without stars."""
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
