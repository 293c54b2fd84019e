r"""The structure of an answer, read from its text: lists and brackets, sides of a relation, labels, intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(
    r"\\[{}]|\\[lr]angle(?![a-zA-Z])|\\[a-zA-Z]+|\\.|[()\[\]{}]|[,;=<>]|(?<![A-Za-z])(?:and|or)(?![A-Za-z])", re.DOTALL
)
_OPENING = {"(": "(", "[": "[", "{": "{", r"\{": "{", r"\langle": "("}
_CLOSING = {")": ")", "]": "]", "}": "}", r"\}": "}", r"\rangle": ")"}
_DEPTH = dict.fromkeys((*_OPENING, r"\begin"), 1) | dict.fromkeys((*_CLOSING, r"\end"), -1)
_RELATIONS = ("=", "<", ">", r"\le", r"\ge", r"\ne", r"\in", r"\approx", r"\equiv")
_THOUSANDS = re.compile(r"\d{3}(?!\d)")
_PLUS_MINUS = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")

_INDEX = r"'?(?:_ ?(?:\w|\{\w+\}))?"
_ARGUMENTS = r"(?: ?\([^()=<>]{1,12}\))?"
_NAME = (
    rf"(?:m?\\(?!(?:pi|infty|sqrt|frac|binom|sin|cos|tan|ln|log)(?![a-zA-Z]))[a-zA-Z]+(?: ?[A-Z]{{1,4}})?{_INDEX}"
    rf"|[A-Za-z]{{1,4}}{_INDEX}{_ARGUMENTS}"
    rf"|[A-Za-z]{_INDEX}(?: ?[-+] ?[A-Za-z]{_INDEX}){{1,4}}"  # MATH asks for a + b
    r"|[A-Za-z]{4,}(?: [A-Za-z]+){0,5}"
    r"|\([a-z](?:, ?[a-z])*\))"
)
_LABEL = re.compile(rf"({_NAME}(?: ?: ?{_NAME})?) ?(=|\\(?:in|approx|equiv)(?![a-zA-Z])) ?")
_VARIABLE = re.compile(_NAME)
_INEQUALITY = re.compile(r"(<|>|\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|\\ne(?![a-zA-Z]))")
_MIRRORED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\ne": r"\ne"}
_SET_OF = re.compile(r"\\\{ ?[a-zA-Z](?: ?\\in ?\\mathbb\{R\})? ?[|:] ?(.*)\\\}")
_SYSTEM = re.compile(r"\\begin ?\{cases\}(.*)\\end ?\{cases\}")
_COLUMN = re.compile(r"\\begin ?\{[pb]matrix\}([^&]*)\\end ?\{[pb]matrix\}")


def parts(text: str) -> tuple[str, list[str]]:
    r"""Outer brackets and comma-separated parts of an answer; there is at least one part.

    If no brackets enclose the whole answer, the brackets are "". ``\{`` and ``{`` give "{}", angles give "()". Without
    outer brackets, commas before groups of three digits separate thousands.
    """
    if match := _SYSTEM.fullmatch(text):
        return "", [row.strip(" ,;&") for row in match[1].split(r"\\") if row.strip(" ,;&")] or [text]
    outer = outer_brackets(text)
    if outer is None:
        return "", _split(_spread_plus_minus(text), thousands=True)
    opening, closing = outer
    inner = text[len(opening) : len(text) - len(closing)].strip()
    return _OPENING[opening] + _CLOSING[closing], _split(_spread_plus_minus(inner), thousands=False)


def outer_brackets(text: str) -> tuple[str, str] | None:
    """The opening and closing bracket of a text if they enclose all of it, else None."""
    tokens = _TOKEN.finditer(text)
    first = next(tokens, None)
    if first is None or first.start() > 0 or first[0] not in _OPENING:
        return None
    depth = 1
    for token in tokens:
        depth += _DEPTH.get(token[0], 0)
        if depth == 0 and token[0] in _CLOSING:
            kinds = _OPENING[first[0]] + _CLOSING[token[0]]
            all_of_it = token.end() == len(text) and kinds in ("()", "[]", "(]", "[)", "{}")
            return (first[0], token[0]) if all_of_it else None
    return None


def sides(text: str, relation: str) -> list[str]:
    """The texts between the signs of a relation; signs inside brackets do not count."""
    return _between(text, [token for token in _top_level(text) if token[0] == relation])


def is_relation(text: str) -> bool:
    """Whether an equals sign, an inequality or the like stands outside of brackets."""
    return any(token[0] in _RELATIONS for token in _top_level(text))


def is_name(text: str) -> bool:
    """Whether a side of an equation only names a quantity: ``x``, ``AB``, ``f(2)``, ``a + b``, but not ``2x``."""
    return _VARIABLE.fullmatch(text) is not None


def labelled(text: str) -> tuple[str | None, str]:
    """Name and value of an answer such as ``x = 5``; the name is None if the answer has no name."""
    match = _LABEL.match(text)
    return (match[1].replace(" ", ""), text[match.end() :]) if match else (None, text)


def is_interval(text: str) -> bool:
    r"""Whether an answer is written as an interval or a union of intervals; ``x \in`` may precede it."""
    match = _LABEL.match(text)
    text = text[match.end() :] if match and match[2] != "=" else text
    return r"\cup" in text or text[:1] in ("(", "[")


def as_interval(text: str) -> str:
    """An inequality about one variable, or several joined by "or", as intervals; anything else as it is."""
    if match := _SET_OF.fullmatch(text):
        text = match[1].strip()
    separators = [token for token in _top_level(text) if token[0] in ("or", ",")]
    intervals = [interval for case in _between(text, separators) if (interval := _interval(case))]
    if len(intervals) < len(separators) + 1 - text.count(", or"):
        return text
    outwards = len(intervals) == 2 and intervals[0].startswith(r"(-\infty") and intervals[1].endswith(r"\infty)")
    either = outwards or all(token[0] == "or" for token in separators)  # x > 1, x < 2 means both
    return r"\cup ".join(intervals) if either else text


def column_as_tuple(text: str) -> str:
    """A column vector as a tuple; anything else as it is."""
    match = _COLUMN.fullmatch(text)
    return f"({', '.join(row.strip() for row in match[1].split(chr(92) * 2) if row.strip())})" if match else text


def _interval(text: str) -> str | None:
    pieces = [piece.strip() for piece in _INEQUALITY.split(text)]
    if len(pieces) == 3 and is_name(pieces[2]) and not is_name(pieces[0]):  # 5 < x: x > 5
        pieces = [pieces[2], _MIRRORED[pieces[1]], pieces[0]]
    if len(pieces) == 3 and is_name(pieces[0]):
        _, relation, bound = pieces
        below, above = rf"(-\infty, {bound}", rf"{bound}, \infty)"
        if relation == r"\ne":
            return rf"{below})\cup ({above}"
        if relation in ("<", r"\le"):
            return below + (")" if relation == "<" else "]")
        return ("(" if relation == ">" else "[") + above
    if len(pieces) == 5 and is_name(pieces[2]):
        low, first, _, second, high = pieces
        if {first, second} <= {">", r"\ge"}:
            low, first, second, high = high, second, first, low
        elif not {first, second} <= {"<", r"\le"}:
            return None
        return ("(" if first in "<>" else "[") + f"{low}, {high}" + (")" if second in "<>" else "]")
    return None


def _split(text: str, *, thousands: bool) -> list[str]:
    """Parts between the commas, semicolons and conjunctions outside all brackets."""
    separators = [token for token in _top_level(text) if token[0] in (",", ";", "and", "or")]
    if thousands:
        separators = [token for token in separators if not _separates_thousands(text, token)]
    pairs = [token for token in separators if token[0] == ";"]  # a=1, b=2; a=2, b=1
    return [part for part in _between(text, pairs or separators) if part] or [text]


def _separates_thousands(text: str, token: re.Match[str]) -> bool:
    return token[0] == "," and text[token.start() - 1].isdigit() and _THOUSANDS.match(text, token.end()) is not None


def _top_level(text: str) -> Iterator[re.Match[str]]:
    """Tokens of a text outside all brackets."""
    depth = 0
    for token in _TOKEN.finditer(text):
        change = _DEPTH.get(token[0], 0)
        depth += change
        if depth == 0 and not change:
            yield token


def _between(text: str, tokens: Iterable[re.Match[str]]) -> list[str]:
    """The texts before, between and after tokens, stripped."""
    ends = [0, *(position for token in tokens for position in token.span()), len(text)]
    return [text[start:end].strip() for start, end in zip(ends[::2], ends[1::2], strict=True)]


def _spread_plus_minus(text: str) -> str:
    r"""Both readings of a text with one ``\pm``, as a list."""
    if len(_PLUS_MINUS.findall(text)) != 1 or "," in text:
        return text
    body = labelled(text)[1]
    return ", ".join(_PLUS_MINUS.sub(sign, body).strip().removeprefix("+").strip() for sign in "+-")
