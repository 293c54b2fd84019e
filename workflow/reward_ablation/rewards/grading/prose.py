"""Answers in prose: the last number, the last formula, and the statement of a sentence such as "The answer is 42".

Each pattern was needed for a real answer, which a comment or a row of the tests quotes. Each pattern has bounds, so
that the time is linear in the length of any text.
"""

from __future__ import annotations

import re
from collections import deque

from reward_ablation.rewards.grading.units import measurement_unit

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

#: Answers of ChatGPT, GPT-4, Claude and Bard to MathVista: "The answer is 189.", "Answer: 4562.", "The answer is: 3",
#: "The answer to your question is 51.05.", "The correct answer is **(B) no**.", "答案:C".
_STATEMENT = re.compile(
    r"(?:(?<![A-Za-z])answer(?: to [^.:\n]{1,60}?)?\*{0,2}(?: is(?![A-Za-z']) ?(?P<colon>:?)| ?:)"
    r"|答案(?:[是为] ?[:\uff1a]?|[:\uff1a]))"
    r"(?P<lead>[\s*\"\u201c]{0,6}(?:(?:approximately|therefore|option|choice)[ ,:]{1,2})?[*\"\u201c]{0,3})",
    re.IGNORECASE,
)
STATEMENT_TAIL = 20_000  # characters from the end in which a statement is looked for
_MOST_STATEMENTS = 20
#: A formula, or a number with its scale: "The answer is 131.3 thousand euros." (Bard)
_STATED = re.compile(
    rf"{_FORMULA}|(?x:{_NUMBER})(?:\s(?:dozen|hundred|thousand|million|billion|trillion|percent)s?(?![A-Za-z]))?"
)
_STATED_CHOICE = re.compile(r"\([A-J]\)|[A-J](?=[.,:;*\"<\u3002\uff0c]|\s?\(|[ \t]{0,9}(?:\n|$))")
_BETWEEN_STATED = re.compile(r"\s?(?:,\s?(?:(?:and|or)\s)?|;\s?|[、\uff0c和或])|\s(?:and|or)\s")
#: The continuation of a number that is part of a longer expression: 3 + 4 = 7, $3.00 x 6, 2x, 3:30, 5!, 41 | 42.
_GOES_ON = re.compile(
    r"[A-Za-z(^_!]|\s?\\|:\d|\s?(?:[?|]{1,3}|\.\.\.)?\s?\d|\s?(?:[-+*/\u00d7\u00f7=<>\u2248\u2013]|(?<=\s)x)(?=\s?[\d$\\(.])"
)
#: One word after a number, written like a unit: 5 cm^2, 30 km/h.
_WORD_AFTER = re.compile(r"\*{0,2}\s?([A-Za-z/]{1,20})(?:\^?\{?[23]\}?)?(?![A-Za-z])")
#: Words after a number that make it another number.
_CHANGES = """
squared cubed factorial dozen half third thirds quarter quarters times plus minus over divided by choose mod or and to
than is are not no more less m b x y e pi i
"""
_LIST_MARK = re.compile(r"[.)]\s{1,3}\S")
_OR = r"(?:(?<![A-Za-z])or(?![A-Za-z])|或)"
_OTHER_NUMBER = re.compile(rf"[^\n]{{0,80}}?{_OR}[^\n]{{0,80}}?\d[^\n]{{0,20}}")
_OTHER_CHOICE = re.compile(
    rf"[^\n.]{{0,80}}?(?:(?:{_OR}|and|[,/&]) ?\([A-J]\)|(?:{_OR}|and|[/&]) ?[A-J](?![A-Za-z']))[^\n.]{{0,20}}"
)
#: "The answer is infinity." (Bard), "The answer to the question is yes, Periwinkle ..." (IDEFICS). The sentence "So the
#: answer is correct." states none.
_WORDS = re.compile(
    r"(?!(?:in)?correct|right|wrong)(?:[A-Za-z]+(?:[ '-][A-Za-z]+){0,2}(?=\*{0,2}(?:[.!\"<\n]|$))|(?:yes|no)(?=,))",
    re.IGNORECASE,
)


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
    """The statement of the last sentence such as "The answer is 42", among the last twenty of them near the end.

    It is one or several formulae, numbers with their scale words ("5 million") or the letter of a choice; if no
    sentence states any of these, up to three words that end their sentence. A guess between two numbers ("41 eggs or 42
    eggs") is returned whole, so that it equals neither. None if nothing is stated, or if the number begins an
    expression (3 + 4 = 7) or is followed by a word that changes it ("7 squared").
    """
    text = text[-STATEMENT_TAIL:]
    statements = list(reversed(deque(_STATEMENT.finditer(text), maxlen=_MOST_STATEMENTS)))
    values = (_value_after(text, statement) for statement in statements)
    stated = next((value for value in values if value is not None), None)
    if stated is None:
        stated = next((words for statement in statements if (words := _words_after(text, statement))), None)
    return stated or None


def _value_after(text: str, statement: re.Match[str]) -> str | None:
    """Formula, numbers or choice after a statement; empty if the number there is no answer, None if there is none."""
    start = statement.end()
    if choice := _STATED_CHOICE.match(text, start):
        return text[start : (_OTHER_CHOICE.match(text, choice.end()) or choice).end()]
    first = last = _STATED.match(text, start)
    if first is None or last is None:
        return None
    while (and_ := _BETWEEN_STATED.match(text, last.end())) and (following := _STATED.match(text, and_.end())):
        last = following
    word = _WORD_AFTER.match(text, last.end())
    listed = "\n" in statement["lead"] and _LIST_MARK.match(text, last.end())
    if listed or _GOES_ON.match(text, last.end()) or (word and word[1].lower() in _CHANGES.split()):
        return ""
    if other := _OTHER_NUMBER.match(text, last.end()):
        return text[start : other.end()]
    if word and word[1] != "in" and measurement_unit(text[start : word.end()]):
        return text[start : word.end()]
    return _content(first) if first is last else text[start : last.end()]


def _words_after(text: str, statement: re.Match[str]) -> str | None:
    """A few words on the statement's own line. After a colon, where solutions may follow, they must end the line."""
    words = None if "\n" in statement["lead"] else _WORDS.match(text, statement.end())
    if words is None:
        return None
    ends_line = not text[words.end() : words.end() + 80].partition("\n")[0].strip(" .!*")
    return words[0] if ends_line or statement["colon"] == "" else None


def _content(found: re.Match[str]) -> str:
    """The content of a formula; a number as it is."""
    return next((group for group in found.groups() if group is not None), found[0]).strip()


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match of a pattern in a text; None if there is no match."""
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0] if last else None
