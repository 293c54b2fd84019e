"""One function per instruction: whether a text follows the instruction. Arguments have the names in IFEval's data.

Source: Zhou et al. 2023, "Instruction-following evaluation for large language models" (arXiv 2311.07911), table 1. The
code is this workflow's own.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal

from pydantic import NonNegativeInt, PositiveInt, StringConstraints

from reward_ablation.rewards.instructions import text as parts

Relation = Literal["at least", "less than"]
#: Bounded, because searching a hostile text for a longer phrase would take long.
Phrase = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Letter = Annotated[str, StringConstraints(min_length=1, max_length=1)]

_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}
#: How a fenced block may open, in the spellings that the published checker takes. They are removed in this order.
_FENCES = ("```json", "```Json", "```JSON", "```")


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
    return not any(parts.contains_word(text, word) for word in forbidden_words)


def letter_frequency(text: str, letter: Letter, let_frequency: NonNegativeInt, let_relation: Relation) -> bool:
    """The letter stands at least, or less than, `let_frequency` times in the text; case is ignored."""
    return _holds(text.lower().count(letter.lower()), let_relation, let_frequency)


def number_words(text: str, num_words: NonNegativeInt, relation: Relation) -> bool:
    """The text has at least, or less than, `num_words` words."""
    return _holds(parts.count_words(text), relation, num_words)


def number_sentences(text: str, num_sentences: NonNegativeInt, relation: Relation) -> bool:
    """The text has at least, or less than, `num_sentences` sentences."""
    return _holds(parts.count_sentences(text), relation, num_sentences)


def number_paragraphs(text: str, num_paragraphs: PositiveInt) -> bool:
    """The text has exactly `num_paragraphs` paragraphs, divided by `***`."""
    paragraphs = parts.parts_between(text, "***")
    return paragraphs is not None and len(paragraphs) == num_paragraphs


def nth_paragraph_first_word(
    text: str, num_paragraphs: PositiveInt, nth_paragraph: PositiveInt, first_word: Phrase
) -> bool:
    """The text has exactly `num_paragraphs` paragraphs, divided by empty lines; the n-th starts with `first_word`.

    An empty paragraph is not one of the `num_paragraphs`, but it counts for the n-th, as in the published checker.
    """
    paragraphs = text.split("\n\n")
    if sum(bool(paragraph.strip()) for paragraph in paragraphs) != num_paragraphs or nth_paragraph > num_paragraphs:
        return False
    return parts.starts_with_word(paragraphs[nth_paragraph - 1], first_word)


def number_placeholders(text: str, num_placeholders: NonNegativeInt) -> bool:
    """The text has at least `num_placeholders` placeholders in square brackets, such as `[address]`."""
    return parts.count_placeholders(text) >= num_placeholders


def postscript(text: str, postscript_marker: Phrase) -> bool:
    """The text has a postscript with this marker; case is ignored."""
    pattern = _POSTSCRIPTS.get(postscript_marker.strip(), re.escape(postscript_marker.strip().lower()))
    return re.search(pattern, text.lower()) is not None


def number_bullet_lists(text: str, num_bullets: NonNegativeInt) -> bool:
    """The text has exactly `num_bullets` bullet points."""
    return parts.count_bullets(text) == num_bullets


def constrained_response(text: str) -> bool:
    """The text has one of the three answers of IFEval: yes, no or maybe."""
    return any(answer in text for answer in _ANSWERS)


def number_highlighted_sections(text: str, num_highlights: NonNegativeInt) -> bool:
    """The text has at least `num_highlights` sections between stars."""
    return parts.count_highlights(text) >= num_highlights


def multiple_sections(text: str, section_spliter: Phrase, num_sections: NonNegativeInt) -> bool:
    """The text has at least `num_sections` sections, each under a heading such as `Section 1`."""
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
    """The text has a title between double angular brackets."""
    return parts.has_title(text)


def two_responses(text: str) -> bool:
    """The text consists of two different responses, divided by six stars."""
    responses = parts.parts_between(text, "******")
    return responses is not None and len(responses) == 2 and responses[0] != responses[1]


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
    return _holds(len(parts.capital_words(text)), capital_relation, capital_frequency)


def english_capital(text: str) -> bool:
    """All letters of the text are capital letters; the language is not checked."""
    return text.isupper()


def english_lowercase(text: str) -> bool:
    """All letters of the text are small letters; the language is not checked."""
    return text.islower()


def no_comma(text: str) -> bool:
    """The text has no comma."""
    return "," not in text
