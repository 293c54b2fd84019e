"""Where in a completion the answer stands: one rule per answer format. Nothing here judges the answer.

`grader`, evaluation and the components read answers by it, and `data` the golds of MATH. Training finds an
answer's tokens by it, for the placement `answer_span`. All of them thus agree on where an answer stands.
"""

from __future__ import annotations

import re
from collections import deque

from reward_ablation.system.errors import StudyError

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{|[-+]?\.?\d)")
_BARE_BOX = re.compile(r"[-+]?[\d.,]*\d")
#: The text between boxes that form one answer, as in "\\boxed{1} and y = \\boxed{3}": no sentence, no empty line.
_BETWEEN_BOXES = re.compile(
    r"(?!\s*\n\s*\n)(?:[ \t\n,;$&/]|\\(?:q?quad|[,;: ()\[\]\\])|(?:\\text\s?\{\s?,?\s?)?\b(?:and|or)\b(?:\s?\})?){0,20}"
    r"(?:[A-Za-z](?:_\{?\w\}?)?\s?=\s?[$\\(\[ ]{0,4})?"
)
_MOST_BOXES = 20  # the last ones of a text, which may form one answer
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_THINK_OPEN, _THINK_CLOSE, _ANSWER_CLOSE = "<think>", "</think>", "</answer>"
_MARKERS = {
    "boxed": _BOX,
    "hash": re.compile(r"(?<!#)####(?!#)"),
    "final": re.compile(r"^[ \t]*Final:", re.MULTILINE),
    "tag": re.compile("<answer>"),
}
FORMULA_TAIL = 4000  # characters from the end in which a formula is looked for
_FORMULA = re.compile(
    r"(?s:\$\$(.{1,500}?)\$\$|(?<![\\$])\$(?![\s$])([^$]{1,500}?)(?<![\s\\])\$(?![\d$])"
    r"|(?<![\\$])\$\s([^$]{0,500}?\\[a-zA-Z][^$]{0,500}?)\s\$(?![\d$])"
    r"|\\\((.{1,500}?)\\\)|\\\[(.{1,500}?)\\\])"
)
#: Before digits, a Latin, Greek or Cyrillic letter makes a name (A2B, λ2); Chinese and Japanese put no space there, and
#: have full-width digits. A sign after a digit or a bracket is an operation. Two signs stay; the grader refuses them.
_LAST_NUMBER = re.compile(
    r"""
    (?<![A-Za-z_\d\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u04ff.\uff0e\\])(?<!\d[eE][-+])
    (?:(?<![-+\u2212)\]}])[-+\u2212]{1,2})?\s?\$?
    (?:\\[dt]?frac\{[-+]?\d+\}\{\d+\}
      |\d+[ ]\d+/\d+(?![\d/])                         # mixed number
      |\d+/\d+(?![\d/])
      |\d+(?:\.\d+){2,}(?:,\d+)?|\d{1,3}\.\d{3},\d+   # one number, which the grader reads as none
      |(?:[1-9]\d{0,2}(?:(?:,|\{,\})\d{3})+(?!\d)|[1-9]\d{0,2}(?:[ ]\d{3})+(?![\d/])|\d+)(?:[.\uff0e]\d+)?
      |\.\d+
    )
    (?:[eE][-+]?\d+)?
    (?:\s?\\?[%\uff05])?
    """,
    re.VERBOSE,
)
STATEMENT_TAIL = 20_000  # characters from the end in which a statement is looked for
_MOST_STATEMENTS = 20
#: "The answer to your question is: 51.05.", "**Final Answer:** 42", "答案:C". "So the answer is correct." states none.
_STATEMENT = re.compile(
    r"(?:(?<![A-Za-z])answer(?: to [^.:\n]{1,60}?)?\*{0,2}(?: is(?![A-Za-z']) ?:?| ?:)|答案[是为]? ?[:\uff1a]?)"
    r"[ *\"\u201c]{0,6}(?![ *]*(?:(?:in)?correct|right|wrong))",
    re.IGNORECASE,
)
#: Where a stated answer ends: at the end of the sentence, or before an aside or a reason.
_SENTENCE_END = re.compile(
    r"\.(?=[\s*\"<]|$)|(?<=\S) \((?![A-J]\))|[\u3002\uff08<\"]|\*\*|,? because|, (?!and |or )[a-z]{2}"
)
#: How a stated answer begins if it is a number, a formula or a single letter.
_VALUE = re.compile(r"[-+\u2212]{0,2} ?[\d$\\([]|[A-Za-z](?![A-Za-z])")


def extract(text: str, answer_format: str) -> str | None:
    r"""Answer of a completion in one format, exactly as it was written.

    Parameters
    ----------
    text : str
        Any text; time is linear in its length. Only the text after the last ``</think>`` counts, up to a ``<think>``
        that is never closed.
    answer_format : {"boxed", "hash", "final", "tag", "last_number"}
        - ``boxed``: the content of the last ``\boxed`` or ``\fbox`` that is not empty, or the number after a box
          without braces (``\boxed 2``). If the last box is never closed, there is no answer: the text was cut off.
          Several boxes with only commas, "and", "or", space or a label (``y =``) between them are one answer, the list
          of their different contents. Two guesses thus equal no one gold.
        - ``hash``: the rest of the line after the last ``####`` (five or more are no marker).
        - ``final``: the rest of the last line that starts with ``Final:``.
        - ``tag``: the text between the last ``<answer>`` and the next ``</answer>``; an unclosed tag has no answer.
        - ``last_number``: the last number in the text, with sign, thousands separators, decimals, ``a/b``,
          ``\frac{a}{b}``, a mixed number (``1 1/2``), an exponent (``1e-5``), groups of digits (``1 000``), several
          points (``1.2.3``), a dollar sign before and a percent sign after. Digits after a letter (``A2B``) are no
          number; digits after a Chinese or Japanese character are a number.

    Returns
    -------
    str or None
        A part of the text, stripped, or the list of several boxes. None if there is no answer or an empty one.

    Raises
    ------
    StudyError
        The format is unknown.
    """
    if answer_format not in (*_MARKERS, "last_number"):
        known = ", ".join((*_MARKERS, "last_number"))
        raise StudyError(f"answer_format: unknown format {answer_format!r}; formats here: {known}")
    said = after_thinking(text)
    if answer_format == "last_number":
        return last_number(said)
    return (_boxed(said) if answer_format == "boxed" else _after_marker(said, answer_format)) or None


def last_box(text: str) -> str | None:
    r"""Content of the last ``\boxed`` or ``\fbox`` alone, as MATH takes its golds; None if it is missing or empty."""
    box = last_match(_BOX, text)
    return ((_content(text, box.end())[1] or "").strip() or None) if box else None


def extract_lenient(text: str) -> str | None:
    r"""Answer by the first of boxed, hash, tag and final that finds one, else the answer that the prose gives.

    Prose states an answer after "answer is" or "answer:" (`stated_answer`). Without a statement the answer is
    the last formula, or the last number if a number follows the formula. A formula stands in ``$...$``, ``$$...$$``,
    ``\(...\)`` or ``\[...\]``, near the end. An opening dollar sign before a space, or a closing one before a digit,
    means money.
    """
    marked = (extract(text, name) for name in ("boxed", "hash", "tag", "final"))
    said = after_thinking(text)
    return next(filter(None, marked), None) or stated_answer(said) or last_formula_or_number(said)


def marker_spans(text: str, answer_format: str) -> list[tuple[int, int]]:
    """Start and end of every marker of a format in the text: an opened box, ``####``, ``Final:``, ``<answer>``."""
    return [match.span() for match in _MARKERS[answer_format].finditer(text)]


def after_thinking(text: str) -> str:
    """Text after the last ``</think>``, up to a ``<think>`` that is never closed."""
    return text[thinking_end(text) :].partition(_THINK_OPEN)[0]


def thinking_end(text: str) -> int:
    """Index after the last ``</think>``; 0 without one."""
    return text.rfind(_THINK_CLOSE) + len(_THINK_CLOSE) if _THINK_CLOSE in text else 0


def bare_gold(gold: str) -> str:
    """A gold without the box or the ``####`` around it, if there is one."""
    return extract(gold, "boxed") or extract(gold, "hash") or gold


def answer_end(text: str, opened: int, answer_format: str) -> int:
    """Index after the answer, with its closing brace or tag, of a marker that ends at `opened`."""
    if answer_format == "boxed":
        return _content(text, opened)[0]
    if answer_format == "tag":
        return text.find(_ANSWER_CLOSE, opened) + len(_ANSWER_CLOSE)
    return opened + len(text[opened:].partition("\n")[0].rstrip())


def _boxed(text: str) -> str:
    """The answer in the last box, or in the last boxes that form one answer; empty if there is none."""
    answers: list[str] = []
    start = len(text)  # start of the box after the current one
    for box in reversed(deque(_BOX.finditer(text), maxlen=_MOST_BOXES)):
        end, content = _content(text, box.end())
        if content is None or (answers and not _BETWEEN_BOXES.fullmatch(text, end, start)):
            break
        if content.strip():
            answers.insert(0, content.strip())
        start = box.start()
    return ", ".join(dict.fromkeys(answers))


def _content(text: str, start: int) -> tuple[int, str | None]:
    """End and content of the box whose marker ends at `start`; the content is None if the box is never closed."""
    if number := _BARE_BOX.match(text, start):
        return number.end(), number[0]
    depth = 0
    for token in _BRACE.finditer(text, start):  # a brace after a backslash does not count
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end(), text[start + 1 : token.start()]
    return start, None


def _after_marker(text: str, answer_format: str) -> str:
    """What follows the last marker: the text before the closing tag, or the rest of the line."""
    marker = last_match(_MARKERS[answer_format], text)
    if marker is None:
        return ""
    answer, closed, _ = text[marker.end() :].partition(_ANSWER_CLOSE if answer_format == "tag" else "\n")
    return answer.strip() if closed or answer_format != "tag" else ""


def last_number(text: str) -> str | None:
    """The last number of a text, as `extraction.extract` describes it; None if there is no number."""
    number = last_match(_LAST_NUMBER, text)
    return number[0].strip() if number else None


def last_formula_or_number(text: str) -> str | None:
    """The last formula near the end of a text, or the last number if it follows or the formula is one character."""
    tail = text[-FORMULA_TAIL:]
    formula = last_match(_FORMULA, tail)
    number = last_number(text)
    if formula is None or re.search(r"\d", tail[formula.end() :]):
        return number
    content = next(filter(None, formula.groups())).strip()
    return number if number and len(content) == 1 else content  # "16, the least such $n$"


def stated_answer(text: str) -> str | None:
    """The rest of the last sentence such as "The answer is 42", without an aside such as "(see step 3)".

    It is the whole rest: a guess between two numbers equals neither, and "7 squared" is not 7. It begins with a number,
    a formula or a single letter, or it is at most three words at the end of a line, since a solution may follow
    "Answer:".
    """
    text = text[-STATEMENT_TAIL:]
    for statement in reversed(deque(_STATEMENT.finditer(text), maxlen=_MOST_STATEMENTS)):
        line = text[statement.end() :].partition("\n")[0]
        end = _SENTENCE_END.search(line)
        said = line[: end.start()] if end else line
        if _VALUE.match(said) or (len(said.split()) <= 3 and not line[len(said) :].strip(' .!*"<')):
            return said.strip() or None
    return None


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match of a pattern in a text; None if there is no match."""
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0] if last else None
