r"""A canonical form of an answer, which most equal answers share: one spelling, without units.

Words for a symbol become the symbol, and a choice its letter. A percent sign stays, for `comparison`. ``\text{}`` is
removed, and its words stay.
"""

from __future__ import annotations

import re

from reward_ablation.rewards.grading.spelling import spelled
from reward_ablation.rewards.grading.units import unwrapped, without_unit

_PLAIN_NUMBER = re.compile(r"(?:\\?\$)?([-+]?\d(?:[\d,]*\d)?(?:\.\d+)?)(?:\\?(%))?\.?", re.ASCII)
#: LaTeX with letters that are no words: environments, their columns, and commands.
_NO_WORDS = re.compile(r"\\(?:begin|end|operatorname) ?\{[^{}]*\}|\{[lcr|]+\}|\\[a-zA-Z]+")
#: Four letters in a row, or a word between two values: 3 to 4, 2 mod 5, 1 R 2.
_WORD = re.compile(
    r"[A-Za-z]{4,}|\bby\b|(?<=[\w)}\]] )(?!and |or |d[a-z] )[A-Za-z]{2,3}(?= [\w({\[])|(?<=\d )[A-Za-z](?= \d)",
    re.ASCII,
)
_CHOICE = re.compile(r"\(?([A-J])\)|(?:[Oo]ption|[Cc]hoice|[Aa]nswer) \(?([A-J])\)?|([A-J])[.:)] (.+)|\(([A-J])\) (.+)")
#: ASCII only, because Chinese and Japanese text has no space around a letter: "B. 或C" names two choices.
_OTHER_CHOICE = re.compile(r"\b(?:and|or|not)\b|[,/&]|\([A-J]\)|\b[B-J]\b", re.ASCII)
#: Words that models box instead of a symbol: "No real solutions", "No solution exists", "infinitely many".
_SYNONYMS = {
    r"(?:there (?:is|are) )?no (?:real )?solutions?(?: exists?)?": r"\emptyset",
    r"dne|(?:limit )?does not exist": "does not exist",
    r"all real numbers": r"\mathbb{R}",
    r"(?:there are )?infinitely many(?: solutions)?": r"\infty",
}


def normalise(text: str) -> str:
    """Canonical form of an extracted answer of bounded length. It is LaTeX that a parser can read, and may be empty.

    For the answers of MATH and GSM8K, normalising twice gives the same as normalising once.
    """
    if match := _PLAIN_NUMBER.fullmatch(text):  # most answers of GSM8K: none of the rules below applies
        return match[1] + (match[2] or "")
    text = unwrapped(without_unit(spelled(text))).strip(" .,;:")
    symbols = (symbol for words, symbol in _SYNONYMS.items() if re.fullmatch(words, text, re.IGNORECASE))
    return _choice(text) or next(symbols, None) or without_unit(text)


def _choice(text: str) -> str | None:
    """Letter of a choice that stands alone or with its text; None for anything else, such as two choices."""
    match = _CHOICE.fullmatch(text)
    if match is None:
        return None
    bracketed, named, stopped, content, enclosed, other = match.groups()
    rest = content or other or ""
    return None if _OTHER_CHOICE.search(rest) else bracketed or named or stopped or enclosed


def comparison_key(normalised: str) -> str:
    """Key that only equal answers share: the answer without spaces, and without braces around a single character.

    A space between two digits stays, because ``1 1/2`` is not ``11/2``. The case of letters counts (AB is not ab), the
    case of words does not.
    """
    key = re.sub(r" (?!\d)|(?<!\d) ", "", normalised)
    key = re.sub(r"([_^])\{(\w)\}", r"\1\2", key)
    one_word = key.isalpha() and len(key) > 1 and key[1:].islower()
    if is_prose(normalised):
        return key.casefold().removesuffix("s" if " " in normalised else "")  # no solution, no solutions
    return key.casefold() if one_word else key


def is_prose(normalised: str) -> bool:
    """Whether an answer has words that are no LaTeX command.

    A parser would read a word as a product of variables: "thing" would equal "night".
    """
    return _WORD.search(_NO_WORDS.sub("|", normalised)) is not None
