"""Answers in prose: the last number, the last formula, and the statement of a sentence such as "The answer is 42".

Each pattern has bounds, so that the time is linear in the length of any text.
"""

from __future__ import annotations

import re
from collections import deque

FORMULA_TAIL = 4000  # characters from the end in which a formula is looked for
_FORMULA = (
    r"(?s:\$\$(.{1,500}?)\$\$|(?<![\\$])\$(?![\s$])([^$]{1,500}?)(?<![\s\\])\$(?![\d$])"
    r"|(?<![\\$])\$\s([^$]{0,500}?\\[a-zA-Z][^$]{0,500}?)\s\$(?![\d$])"
    r"|\\\((.{1,500}?)\\\)|\\\[(.{1,500}?)\\\])"
)
_LAST_FORMULA = re.compile(_FORMULA)
#: Full-width digits, stops and percent signs stand in Chinese and Japanese text.
_DIGITS = r"(?:[1-9]\d{0,2}(?:(?:,|\{,\})\d{3})+(?!\d)|\d+)(?:[.\uff0e]\d+)?|\.\d+"
#: A sign after a digit or a bracket is an operation. Two signs stay with the number, and the grader refuses them;
#: two dashes right after a word are no sign.
_NUMBER = rf"""
    (?:(?<![-+\u2212)\]}}])[-+\u2212]{{1,2}})?\s?\$?
    (?:\\[dt]?frac\{{[-+]?\d+\}}\{{\d+\}}
      |\d+[ ]\d+/\d+(?![\d/])                         # mixed number
      |\d+/\d+(?![\d/])
      |(?:{_DIGITS})
    )
    (?:\s?\\?[%\uff05])?
"""
#: Before digits, a Latin, Greek or Cyrillic letter makes a name (A2B, λ2). Chinese and Japanese put no space before a
#: number: "所以答案是：9。" (prompt of DeepSeek-Math for CMATH), "答えは11です。" (MGSM), "度数为36°" (Claude).
_LAST_NUMBER = re.compile(rf"(?<![A-Za-z_\d\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u04ff.\uff0e\\]){_NUMBER}", re.VERBOSE)

STATEMENT_TAIL = 20_000  # characters from the end in which a statement is looked for
_MOST_STATEMENTS = 20
#: "The answer is 189.", "**Final Answer:** 42", "The answer to your question is: 51.05.", "答案:C". "So the answer is
#: correct." states none.
_STATEMENT = re.compile(
    r"(?:(?<![A-Za-z])answer(?: to [^.:\n]{1,60}?)?\*{0,2}(?: is(?![A-Za-z']) ?:?| ?:)|答案[是为]? ?[:\uff1a]?)"
    r"[ *\"\u201c]{0,6}(?![ *]*(?:(?:in)?correct|right|wrong))",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"\.(?=[\s*\"<]|$)|(?<=\S) \((?![A-J]\))|[\u3002\uff08<\"]|\*\*|,? because|, (?!and |or )[a-z]{2}"
)
_VALUE = re.compile(r"[-+\u2212]{0,2} ?[\d$\\([]|[A-Za-z](?![A-Za-z])")


def last_number(text: str) -> str | None:
    """The last number of a text, as `extraction.extract` describes it; None if there is no number."""
    number = last_match(_LAST_NUMBER, text)
    return number[0].strip() if number else None


def last_formula_or_number(text: str) -> str | None:
    """The last formula near the end of a text, or the last number if a number follows the formula."""
    tail = text[-FORMULA_TAIL:]
    formula = last_match(_LAST_FORMULA, tail)
    number = last_number(text)
    if formula is None or re.search(r"\d", tail[formula.end() :]):
        return number
    content = _content(formula)
    return number if number and len(content) == 1 else content  # "16, the least such $n$"


def stated_answer(text: str) -> str | None:
    """The rest of the last sentence such as "The answer is 42", without an aside such as "(see step 3)".

    It is the whole rest: a guess between two numbers equals neither, and "7 squared" is not 7. It begins with a number,
    a formula or a letter, or it is at most three words at the end of a line; after "Answer:" a solution may follow.
    """
    text = text[-STATEMENT_TAIL:]
    for statement in reversed(deque(_STATEMENT.finditer(text), maxlen=_MOST_STATEMENTS)):
        line = text[statement.end() :].partition("\n")[0]
        end = _SENTENCE_END.search(line)
        said = line[: end.start()] if end else line
        if _VALUE.match(said) or (len(said.split()) <= 3 and not line[len(said) :].strip(' .!*"<')):
            return said.strip() or None
    return None


def _content(found: re.Match[str]) -> str:
    """The content of a formula; a number as it is."""
    return next((group for group in found.groups() if group is not None), found[0]).strip()


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match of a pattern in a text; None if there is no match."""
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0] if last else None
