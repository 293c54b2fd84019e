r"""The structure of an answer, read from its text: lists and brackets, sides of a relation, labels, intervals.

`comparison` takes answers apart with these functions, so that only single expressions are left to the parser.
"""

from __future__ import annotations

import re

from reward_ablation.rewards.grading.exact import real_value
from reward_ablation.rewards.grading.normalisation import unit_name

#: A bracket, a command, a sign of a relation, or a separator of parts.
_TOKEN = re.compile(
    r"\\[{}]|\\[lr]angle(?![a-zA-Z])|\\[a-zA-Z]+|\\.|[()\[\]{}]|[,;=<>]|(?<![A-Za-z])(?:and|or)(?![A-Za-z])", re.DOTALL
)
_OPENING = {"(": "(", "[": "[", "{": "{", r"\{": "{", r"\langle": "("}  # and the bracket that it counts as
_CLOSING = {")": ")", "]": "]", "}": "}", r"\}": "}", r"\rangle": ")"}
_DEPTH = dict.fromkeys((*_OPENING, r"\begin"), 1) | dict.fromkeys((*_CLOSING, r"\end"), -1)  # by how much it changes
_RELATIONS = ("=", "<", ">", r"\le", r"\ge", r"\ne", r"\in", r"\approx", r"\equiv")
_THOUSANDS = re.compile(r"\d,\d{3}(?!\d)")  # from the digit before the comma, as in 1,234
_PLUS_MINUS = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")

#: What may follow the letters of a name: a prime and an index, as in x'_1, and arguments, as in f^{-1}(2).
_INDEX = r"'?(?:_ ?(?:\w|\{\w+\}))?"
_ARGUMENTS = r"(?: ?(?:\^ ?\{?-1\}? ?)?\([^()=<>]{1,12}\))?"
_NAME = (
    rf"(?:m?\\(?!(?:pi|infty|sqrt|frac|binom|sin|cos|tan|ln|log)(?![a-zA-Z]))[a-zA-Z]+(?: ?[A-Z]{{1,4}})?{_INDEX}"
    rf"|[A-Za-z]{{1,4}}{_INDEX}{_ARGUMENTS}"
    rf"|[A-Za-z]{_INDEX}{_ARGUMENTS}(?: ?[-+] ?[A-Za-z]{_INDEX}{_ARGUMENTS}){{1,4}}"  # MATH asks for a + b
    r"|[A-Za-z]{4,}(?: [A-Za-z]+){0,5}"
    r"|\([a-z](?:, ?[a-z])*\))"
)
#: The name before a value, as in x = 5, f(x) = 5 or \angle ABC = 5.
_LABEL = re.compile(rf"({_NAME}(?: ?: ?{_NAME})?) ?(=|\\(?:in|approx|equiv)(?![a-zA-Z])) ?")
_VARIABLE = re.compile(_NAME)
_INEQUALITY = re.compile(r"(<|>|\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|\\ne(?![a-zA-Z]))")
_MIRRORED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\ne": r"\ne"}  # with its sides exchanged
_SET_OF = re.compile(r"\\\{ ?[a-zA-Z](?: ?\\in ?\\mathbb\{R\})? ?[|:] ?(.*)\\\}")  # as in {x | x > 5}
_MATRIX = re.compile(r"\\begin ?\{[pb]matrix\}(.*)\\end ?\{[pb]matrix\}")
_QUANTITY = re.compile(r"([-+]?\d[\d.,]*(?:/\d+)?) ?([A-Za-z]+)\.?")  # a number and its unit
#: Such as 5 ft 3 in; the space before the next number separates two quantities.
_SEVERAL_QUANTITIES = re.compile(r"(?:\d[\d.,]* ?[A-Za-z]{1,20}\.?,? ?){2,9}")
_CLEAR = re.compile(r"(?<=[A-Za-z.]) (?=\d)")
#: A command, or a letter that may be a variable: e and i are constants.
_LETTER = re.compile(r"\\[a-zA-Z]+|[a-df-hj-zA-Z]")


def parts(text: str) -> tuple[str, list[str]]:
    r"""Outer brackets of an answer, and its parts between commas, semicolons, "and", "or"; there is at least one part.

    If no brackets enclose the whole answer, the brackets are "". ``\{`` and ``{`` give "{}", angles give "()". Without
    outer brackets, commas before groups of three digits separate thousands. One ``\pm`` makes two parts.
    """
    outer = outer_brackets(text)
    brackets = _OPENING[outer[0]] + _CLOSING[outer[1]] if outer else ""
    return brackets, _split(_spread_plus_minus(_inner(text)), thousands=not outer)


def outer_brackets(text: str) -> tuple[str, str] | None:
    """The opening and closing bracket of a text if they enclose all of it, else None."""
    depth, opening = 0, ""
    for token in _TOKEN.finditer(text):
        opening = opening or token[0]
        if opening not in _OPENING or (depth == 0 and token.start() > 0):
            return None
        depth += _DEPTH.get(token[0], 0)
        if depth == 0 and token[0] in _CLOSING:
            fitting = _OPENING[opening] + _CLOSING[token[0]] in ("()", "[]", "(]", "[)", "{}")
            return (opening, token[0]) if fitting and token.end() == len(text) else None
    return None


def sides(text: str, *signs: str) -> list[str]:
    """The texts between the signs of a relation, or other signs; signs inside brackets do not count."""
    return _between(text, _top_level(text, *signs))


def is_relation(text: str) -> bool:
    """Whether an equals sign, an inequality or the like stands outside of brackets."""
    return bool(_top_level(text, *_RELATIONS))


def is_name(text: str) -> bool:
    """Whether a side of an equation only names a quantity: ``x``, ``AB``, ``f(2)``, ``a + b``, but not ``2x``."""
    return _VARIABLE.fullmatch(text) is not None


def has_variables(text: str) -> bool:
    """Whether a letter other than e and i stands in a text outside of commands."""
    return any(token[0] != "\\" for token in _LETTER.findall(text))


def solutions(text: str) -> list[dict[str, str]] | None:
    """Values by name ("" without one), or by unit after a space, of each solution; None with less than two names."""
    # A new solution begins after "or" and with a name that comes again.
    found: list[dict[str, str]] = [{}]
    for separator, part in _separated(_inner(text), thousands=not outer_brackets(text)):
        name, value = labelled(part)
        if name is None and (quantity := _QUANTITY.fullmatch(part)):
            name, value = f" {unit_name(quantity[2])}", quantity[1]
        if separator == "or" or (name or "") in found[-1]:
            found.append({})
        found[-1][name or ""] = value
    return found if len({name for solution in found for name in solution} - {""}) > 1 else None


def conjunction(text: str) -> str | None:
    """How several inequalities are joined, "or" or "and"; None for anything else."""
    pieces = parts(text)[1]
    if len(pieces) < 2 or not all(_INEQUALITY.search(piece) for piece in pieces):
        return None
    return "or" if as_interval(text) != text or _top_level(text, "or") else "and"


def matrix(text: str) -> list[list[str]] | None:
    """Entries of a matrix by rows; None for anything else."""
    match = _MATRIX.fullmatch(text)
    if match is None or r"\begin" in match[1]:
        return None
    return [[entry.strip() for entry in row.split("&")] for row in match[1].split(r"\\") if row.strip()]


def column_as_tuple(text: str) -> str:
    """A column vector as a tuple; anything else as it is."""
    rows = matrix(text) or []
    return f"({', '.join(entry for (entry,) in rows)})" if rows and {*map(len, rows)} == {1} else text


def labelled(text: str) -> tuple[str | None, str]:
    """Name and value of an answer such as ``x = 5``; the name is None if the answer has no name."""
    match = _LABEL.match(text)
    return (match[1].replace(" ", ""), text[match.end() :]) if match else (None, text)


def is_interval(text: str) -> bool:
    r"""Whether an answer is written as an interval or a union of intervals; ``x \in`` may precede it."""
    match = _LABEL.match(text)
    return r"\cup" in text or text[match.end() if match and match[2] != "=" else 0 :].startswith(("(", "["))


def as_interval(text: str) -> str:
    """An inequality about one variable, or several that mean "or", as intervals; anything else as it is."""
    if match := _SET_OF.fullmatch(text):
        text = match[1].strip()
    separators = _top_level(text, "or", ",")
    intervals = [interval for case in _between(text, separators) if (interval := _interval(case))]
    if len(intervals) < len(separators) + 1 - text.count(", or"):  # a case is no inequality; ", or" is one separator
        return text
    either = _is_outwards(intervals) or all(token[0] == "or" for token in separators)
    return r"\cup ".join(intervals) if either else text


def _is_outwards(intervals: list[str]) -> bool:
    """Whether two intervals are those of x < -2, x > 2, in any order, or of x < a, x > b; x > 1, x < 2 means both."""
    rays = sorted(intervals, key=lambda each: not each.startswith(r"(-\infty"))
    if len(rays) != 2 or not (rays[0].startswith(r"(-\infty, ") and rays[1].endswith(r", \infty)")):
        return False
    below, above = real_value(rays[0][9:-1]), real_value(rays[1][1:-9])
    return rays == intervals if below is None or above is None else below <= above


def _interval(text: str) -> str | None:
    """An inequality such as x > 5 or 0 < x < 1 as an interval; None for anything else."""
    pieces = [piece.strip() for piece in _INEQUALITY.split(text)]
    turned = is_name(pieces[2]) and not is_name(pieces[0]) if len(pieces) == 3 else pieces[1:2] in ([">"], [r"\ge"])
    if turned:  # 5 < x is x > 5
        pieces = [_MIRRORED.get(piece, piece) for piece in reversed(pieces)]
    if len(pieces) == 3 and is_name(pieces[0]):
        name, relation, bound = pieces
        if relation == r"\ne":
            return rf"(-\infty, {bound})\cup ({bound}, \infty)"
        below = relation in ("<", r"\le")
        pieces = [r"-\infty", "<", *pieces] if below else [bound, _MIRRORED[relation], name, "<", r"\infty"]
    if len(pieces) != 5 or not is_name(pieces[2]) or not {pieces[1], pieces[3]} <= {"<", r"\le"}:
        return None
    return f"{'(' if pieces[1] == '<' else '['}{pieces[0]}, {pieces[4]}{')' if pieces[3] == '<' else ']'}"


def _split(text: str, *, thousands: bool) -> list[str]:
    """Parts between the commas, semicolons and conjunctions outside all brackets.

    Lists between semicolons or conjunctions, as in 1, 2 or 3, 4, are parts unless their values have names.
    """
    flat = [part for _, part in _separated(text, thousands)]
    if sum(labelled(part)[0] is not None for part in flat) < 2:
        for signs in ((";",), ("and", "or")):
            pieces = sides(text, *signs)
            lists = [len(_separated(piece, thousands)) > 1 and not piece.endswith(",") for piece in pieces]
            if len(pieces) > 1 and (all(lists) or (";" in signs and any(lists))):
                return [piece for piece in pieces if piece]
    return flat or [text]


def _separated(text: str, thousands: bool) -> list[tuple[str, str]]:
    """Parts that are not empty, with the sign or conjunction before each."""
    if _SEVERAL_QUANTITIES.fullmatch(text):
        text = _CLEAR.sub(", ", text.replace(",", ""))
    separators = _top_level(text, ",", ";", "and", "or")
    if thousands:
        separators = [token for token in separators if not _THOUSANDS.match(text, max(token.start() - 1, 0))]
    signs = ["", *(token[0] for token in separators)]
    return [(sign, part) for sign, part in zip(signs, _between(text, separators), strict=True) if part]


def _inner(text: str) -> str:
    """A text without its outer brackets."""
    outer = outer_brackets(text)
    return text[len(outer[0]) : -len(outer[1])].strip() if outer else text


def _top_level(text: str, *signs: str) -> list[re.Match[str]]:
    """Those signs of a text that stand outside all brackets."""
    depth, found = 0, []
    for token in _TOKEN.finditer(text):
        depth += _DEPTH.get(token[0], 0)
        if depth == 0 and token[0] in signs:
            found.append(token)
    return found


def _between(text: str, tokens: list[re.Match[str]]) -> list[str]:
    """The texts before, between and after tokens, stripped."""
    ends = [0, *(position for token in tokens for position in token.span()), len(text)]
    return [text[start:end].strip() for start, end in zip(ends[::2], ends[1::2], strict=True)]


def _spread_plus_minus(text: str) -> str:
    r"""Both readings of a text with one ``\pm``, as a list without its label; a text with a comma stays."""
    if len(_PLUS_MINUS.findall(text)) != 1 or "," in text:
        return text
    body = labelled(text)[1]
    return ", ".join(_PLUS_MINUS.sub(sign, body).strip().removeprefix("+").strip() for sign in "+-")
