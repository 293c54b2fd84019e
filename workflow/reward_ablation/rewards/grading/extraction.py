"""Where in a completion the answer stands: one rule per answer format. Nothing here judges the answer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

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
_HASH = re.compile(r"(?<!#)####(?!#)")
_FINAL = re.compile(r"^[ \t]*Final:", re.MULTILINE)
_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_ANSWER_OPEN, _ANSWER_CLOSE = "<answer>", "</answer>"


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
    if answer_format not in _EXTRACTORS:
        raise StudyError(f"answer_format: unknown format {answer_format!r}; formats here: {', '.join(_EXTRACTORS)}")
    answer = _EXTRACTORS[answer_format](after_thinking(text))
    return answer.strip() or None if answer else None


def last_box(text: str) -> str | None:
    r"""Content of the last ``\boxed`` or ``\fbox`` alone, as MATH takes its golds; None if it is missing or empty."""
    box = last_match(_BOX, text)
    return (_content(text, box.end())[1] or "").strip() or None if box else None


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


def _closing_brace(text: str, opening: int) -> int | None:
    """Index of the brace that closes the brace at `opening`, or None; a brace after a backslash does not count."""
    depth = 0
    for match in _BRACE.finditer(text, opening):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0 and match[0] == "}":
            return match.start()
    return None


def _boxed(text: str) -> str | None:
    boxes = deque(_BOX.finditer(text), maxlen=_MOST_BOXES)
    if not boxes:
        return None
    answers: list[str] = []
    start = len(text)  # start of the box after the current one
    for box in reversed(boxes):
        end, content = _content(text, box.end())
        if content is None or (answers and not _BETWEEN_BOXES.fullmatch(text, end, start)):
            break
        if content.strip():
            answers.insert(0, content.strip())
        start = box.start()
    return ", ".join(dict.fromkeys(answers)) or None


def _content(text: str, start: int) -> tuple[int, str | None]:
    """End and content of the box whose marker ends at `start`; the content is None if the box is never closed."""
    if text[start] != "{":
        number = _BARE_BOX.match(text, start)
        return (number.end(), number[0]) if number else (start, None)
    end = _closing_brace(text, start)
    return (start, None) if end is None else (end + 1, text[start + 1 : end])


def _rest_of_line(pattern: re.Pattern[str], text: str) -> str | None:
    marker = last_match(pattern, text)
    return None if marker is None else text[marker.end() :].partition("\n")[0]


def _tag(text: str) -> str | None:
    start = text.rfind(_ANSWER_OPEN)
    end = text.find(_ANSWER_CLOSE, start)
    return None if start < 0 or end < 0 else text[start + len(_ANSWER_OPEN) : end]


_EXTRACTORS: dict[str, Callable[[str], str | None]] = {
    "boxed": _boxed,
    "hash": lambda text: _rest_of_line(_HASH, text),
    "final": lambda text: _rest_of_line(_FINAL, text),
    "tag": _tag,
    "last_number": last_number,
}
_MARKERS = {"boxed": _BOX, "hash": _HASH, "final": _FINAL, "tag": re.compile(_ANSWER_OPEN)}
