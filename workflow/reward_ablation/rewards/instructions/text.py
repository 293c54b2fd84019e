"""Parts of a text that instructions count: words, sentences, paragraphs, lines of lists, marked sections.

No expression here looks at a character more than a few times, whatever the text.
"""

from __future__ import annotations

import re
from itertools import pairwise

#: What may stand between the mark that ends a sentence and the space after the sentence.
_CLOSING = "\"'”’»)]}*_`"
_OPENING = "\"'“‘«([{*_`"
_ENDS = (".", "!", "?", "…", "。", "！", "？")
#: Words with a point that end no sentence, whatever follows: titles, and words before a name or a number.
_ABBREVIATIONS = frozenset(
    word
    for words in (
        ("mr", "mrs", "ms", "dr", "prof", "st", "rev", "gen", "col", "sgt", "capt", "lt", "gov", "sen", "rep"),
        ("vs", "e.g", "i.e", "cf", "ca", "approx", "fig", "figs", "eq", "eqs", "vol", "vols", "pp", "ed", "eds"),
        ("jan", "feb", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov"),
    )
    for word in words
)
_HIGHLIGHT = re.compile(r"\*\*[^\n*]+\*\*|\*[^\n*]+\*")
#: With hyphens and apostrophes inside: WELL-KNOWN is one word.
_WORD = re.compile(r"\w+(?:[-'’]\w+)*")


def count_words(text: str) -> int:
    """Runs of letters, digits and underscores: `well-known` is two words."""
    return len(re.findall(r"\w+", text))


def capital_words(text: str) -> list[str]:
    """Words without a small letter and with at least one capital one; a hyphen or an apostrophe is inside a word."""
    return [word for word in _WORD.findall(text) if word.isupper()]


def count_sentences(text: str) -> int:
    """Sentences: each ends with a mark before white space, or with the text.

    A point ends no sentence after a title, a single letter (an initial) or the number of an item in a list. Before a
    small letter three more cases end none: an abbreviation with points inside or etc., an ellipsis, and a mark inside
    quotation marks or brackets. The end of a line ends no sentence: a heading without a mark is a part of the sentence
    after the heading. Chinese and Japanese marks need no white space.
    """
    words = re.sub("([。！？]+)", r"\1 ", text).split()
    count, begun = 0, False
    for word, following in pairwise([*words, ""]):
        bare = word.rstrip(_CLOSING)
        is_number = not begun and bare[:-1].isdigit()  # of an item in a list
        begun = begun or _has_letter(bare)
        if begun and bare.endswith(_ENDS) and not (following and (is_number or _goes_on(word, bare, following))):
            count, begun = count + 1, False
    return count + begun


def _goes_on(word: str, bare: str, following: str) -> bool:
    """Whether a sentence goes on after a word that ends with a mark; `bare` is the word without what closes."""
    stem = bare.lstrip(_OPENING)[:-1].lower()
    if bare.endswith(".") and (stem in _ABBREVIATIONS or (len(stem) == 1 and stem.isalpha())):
        return True
    if not following.lstrip(_OPENING)[:1].islower():
        return False
    return word != bare or bare.endswith(("..", "…")) or stem == "etc" or "." in stem


def _has_letter(word: str) -> bool:
    return any(character.isalnum() for character in word)


def parts_between(text: str, divider: str) -> list[str] | None:
    """Parts of a text between dividers; None where one in the middle is empty. Empty first and last parts are no parts.

    Parts have no white space at their ends.
    """
    parts = [part.strip() for part in text.split(divider)]
    if not parts[0]:
        parts = parts[1:]
    if parts and not parts[-1]:
        parts = parts[:-1]
    return parts if all(parts) else None


def blocks(text: str) -> list[str]:
    """Paragraphs between empty lines, without white space at their ends."""
    return [block for part in text.split("\n\n") if (block := part.strip())]


def count_bullets(text: str) -> int:
    """Lines that start with `-`, or with one `*` and more behind it."""
    lines = [line.strip() for line in text.split("\n")]
    return sum(line.startswith("-") or (line.startswith("*") and line[1:2] not in ("", "*")) for line in lines)


def count_highlights(text: str) -> int:
    """Sections on one line between stars, `*so*` or `**so**`."""
    return sum(bool(found.strip("*").strip()) for found in _HIGHLIGHT.findall(text))


def count_placeholders(text: str) -> int:
    """Square brackets, opened and closed on one line."""
    return sum(_count_brackets(line) for line in text.split("\n"))


def _count_brackets(line: str) -> int:
    count, start = 0, line.find("[")
    while start >= 0 and (end := line.find("]", start)) >= 0:
        count += 1
        start = line.find("[", end)
    return count


def has_title(text: str) -> bool:
    """Whether a line has a title between `<<` and `>>`."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if start >= 0 and line[start + 2 : end if end > start + 2 else start + 2].strip("<> \t\r\f\v"):
            return True
    return False


def contains_word(text: str, word: str) -> bool:
    """Whether a word stands in a text by itself, in capital or small letters."""
    text, word = text.lower(), word.lower()
    return word in text and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def first_word(text: str) -> str:
    """The first word in small letters, without quotation marks before it, and up to a mark in it."""
    words = text.split(maxsplit=1)
    return re.split(r"[.,?!'\"]", words[0].lstrip("'\""), maxsplit=1)[0].lower() if words else ""
