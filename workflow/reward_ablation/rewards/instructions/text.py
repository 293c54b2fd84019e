"""Parts of a text that the instructions in `checks` count: words, sentences, paragraphs, lines of lists, sections.

No regular expression here reads a character more than a few times, in any text.
"""

from __future__ import annotations

import re
from itertools import pairwise

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


def count_words(text: str) -> int:
    """Number of runs of letters, digits and underscores: `well-known` counts as two words."""
    return len(re.findall(r"\w+", text))


def capital_words(text: str) -> list[str]:
    """Words with a capital letter and without a small one. A word may contain hyphens and apostrophes."""
    return [word for word in _WORD.findall(text) if word.isupper()]


def count_sentences(text: str) -> int:
    """Number of sentences. A sentence ends with a mark before white space, or with the text.

    A full stop ends no sentence after a title, a single letter (an initial) or the number of an item in a list. If the
    next word starts with a small letter, three more marks end no sentence: the stop of "etc." or of an abbreviation
    with stops inside, an ellipsis, and a mark inside quotation marks or brackets. The end of a line ends no sentence: a
    heading without a mark belongs to the sentence after the heading. Chinese and Japanese marks need no white space.
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
    """Whether a sentence goes on after a word that ends with a mark; `bare` is the word without closing characters."""
    stem = bare.lstrip(_OPENING)[:-1].lower()
    if bare.endswith(".") and (stem in _ABBREVIATIONS or (len(stem) == 1 and stem.isalpha())):
        return True
    if not following.lstrip(_OPENING)[:1].islower():
        return False
    return word != bare or bare.endswith(("..", "…")) or stem == "etc" or "." in stem


def _has_letter(word: str) -> bool:
    return any(character.isalnum() for character in word)


def parts_between(text: str, divider: str) -> list[str] | None:
    """Parts of a text between dividers, stripped; None if a part in the middle is empty.

    An empty first or last part is dropped.
    """
    parts = [part.strip() for part in text.split(divider)]
    if not parts[0]:
        parts = parts[1:]
    if parts and not parts[-1]:
        parts = parts[:-1]
    return parts if all(parts) else None


def count_bullets(text: str) -> int:
    """Number of lines that start with `-`, or with a single `*`. A `*` alone counts together with the line after it."""
    lines = [line.lstrip() for line in text.split("\n")]
    count, following = sum(line.startswith("-") for line in lines), iter(lines)
    for line in following:
        if line == "*":
            count += next(following, None) is not None
        else:
            count += line.startswith("*") and line[1] != "*"
    return count


def count_highlights(text: str) -> int:
    """Number of sections between stars on one line. `*so*` and `**so**` count once, `***so***` counts as both."""
    return sum(bool(found.strip("*").strip()) for pattern in _HIGHLIGHTS for found in pattern.findall(text))


def count_placeholders(text: str) -> int:
    """Number of square brackets that open and close on one line."""
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
        if 0 <= start < end - 2 and line[start:end].lstrip("<").rstrip(">").strip():
            return True
    return False


def contains_word(text: str, word: str) -> bool:
    """Whether a text contains a whole word; case is ignored."""
    text, word = text.lower(), word.lower()
    return word in text and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def starts_with_word(text: str, word: str) -> bool:
    """Whether the first word of a text, without quotation marks before it and up to a punctuation mark, is `word`."""
    words, word = text.split(maxsplit=1), word.lower()
    first = words[0].lstrip("'").lstrip('"').lower() if words else ""
    return first.startswith(word) and first[len(word) : len(word) + 1] in ("", *".,?!'\"")
