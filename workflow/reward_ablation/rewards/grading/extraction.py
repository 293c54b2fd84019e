"""Where in a completion the answer stands: one rule per answer format. Nothing here judges the answer."""

from __future__ import annotations

import re
from collections import deque

from reward_ablation.rewards.grading.prose import last_formula_or_number, last_match, last_number, stated_answer
from reward_ablation.system.errors import StudyError

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{|[-+]?\.?\d)")
_BARE_BOX = re.compile(r"[-+]?[\d.,]*\d")
#: The text between boxes that form one answer, as in "\\boxed{1}, \\boxed{2} and y = \\boxed{3}": no sentence, and no
#: empty line.
_BETWEEN_BOXES = re.compile(
    r"(?!\s*\n\s*\n)(?:[ \t\n,;$&/]|\\(?:q?quad|[,;: ()\[\]\\])|(?:\\text\s?\{\s?,?\s?)?\b(?:and|or)\b(?:\s?\})?){0,20}"
    r"(?:[A-Za-z](?:_\{?\w\}?)?\s?=\s?[$\\(\[ ]{0,4})?"
)
_MOST_BOXES = 20
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_THINK_OPEN, _THINK_CLOSE, _ANSWER_CLOSE = "<think>", "</think>", "</answer>"
_MARKERS = {
    "boxed": _BOX,
    "hash": re.compile(r"(?<!#)####(?!#)"),
    "final": re.compile(r"^[ \t]*Final:", re.MULTILINE),
    "tag": re.compile("<answer>"),
}


def extract(text: str, answer_format: str) -> str | None:
    r"""Answer of a completion in one format, exactly as it was written.

    Parameters
    ----------
    text : str
        Any text; time is linear in its length. Only the text after the last ``</think>`` counts, up to a ``<think>``
        that is never closed.
    answer_format : {"boxed", "hash", "final", "tag", "last_number"}
        - ``boxed``: the content of the last ``\boxed`` or ``\fbox`` that is not empty, with nested braces (``\{`` and
          ``\}`` are no braces), or the number after a box without braces (``\boxed 2``). If the last box is never
          closed, there is no answer: the text was cut off. Several boxes with only commas, "and", "or", space or
          a label (``y =``) between them are one answer, the list of their contents. Two guesses thus equal no one gold.
        - ``hash``: the rest of the line after the last ``####`` (five or more are no marker).
        - ``final``: the rest of the last line that starts with ``Final:``.
        - ``tag``: the text between the last ``<answer>`` and the next ``</answer>``; an unclosed tag has no answer.
        - ``last_number``: the last number in the text, with sign, thousands separators, decimals, ``a/b``,
          ``\frac{a}{b}``, a mixed number (``1 1/2``), a dollar sign before and a percent sign after. Digits after a
          letter (``A2B``) are no number; digits after a Chinese or Japanese character are a number.

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

    Prose states an answer after "answer is" or "answer:" (`prose.stated_answer`). Without a statement the answer is
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
