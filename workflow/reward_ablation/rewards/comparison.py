r"""When two answers say the same: exact values first, then by their structure, and last expression by expression.

Nothing here parses mathematics. Lists, sets, tuples and intervals are taken apart as text, and what
is left goes to a function that the caller brings: none in the calling process, which then learns
that only a parser can tell, and `symbolic.equal` in the worker.

Rules
-----
- A bare list ``1, 2`` and a set ``\{1, 2\}`` have no order. Only in a bare list of several single values
  does it count how often one stands there: ``1/2, 0.5`` is 0.5 said twice, and no guess.
- ``(1, 2)`` and ``[1, 2]`` have an order, and their brackets count: a tuple is not a set, ``(0, 1]`` is
  not ``[0, 1]``. A tuple without its parentheses is one if its order is right.
- ``1 \pm a`` is the list ``1 + a, 1 - a``; "and" and "or" are commas.
- ``x = 5`` says 5 where the other answer is no equation; ``x \in S`` says S; ``-2 \le x < 7`` is the
  interval ``[-2, 7)`` where the other is an interval.
- ``1101_2`` is 1101 in base two; without the base the digits count.
- Words are compared as words: a parser would read them as products of variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from reward_ablation.rewards.normalisation import comparison_key, decimal_comma, exact_value, is_prose, significant

#: Whether two expressions are equal (gold, answer); None where that takes a parser.
Leaf = Callable[[str, str], bool | None]

#: A decimal of so many digits is how a computer prints a value: as that value, rounded.
ROUNDED_DIGITS = 12

_NAME = r"(?:\\[a-zA-Z]+|[A-Za-z]{1,3})'?(?:_(?:\w|\{\w+\}))?(?: ?\([a-z](?:, ?[a-z])*\))?"
_LABEL = re.compile(rf"(?!\\pi|\\infty)(?:{_NAME}|\([a-z](?:, ?[a-z])*\)) ?(=|\\in(?![a-zA-Z])|\\approx(?![a-zA-Z])) ?")
_RELATIONS = ("=", "<", ">", r"\le", r"\ge", r"\ne", r"\in", r"\approx", r"\equiv")
_INEQUALITY = re.compile(r"(<|>|\\le(?![a-zA-Z])|\\ge(?![a-zA-Z]))")
_VARIABLE = re.compile(_NAME)
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_BASED = re.compile(r"([A-F]*\d[0-9A-F]*)_\{?(\d{1,2})\}?")
_TOKEN = re.compile(
    r"\\[{}]|\\[lr]angle(?![a-zA-Z])|\\[a-zA-Z]+|\\.|[()\[\]{}]|[,;=<>]|(?<![A-Za-z])(?:and|or)(?![A-Za-z])", re.DOTALL
)
_OPENING = {"(": "(", "[": "[", "{": "{", r"\{": "{", r"\langle": "("}
_CLOSING = {")": ")", "]": "]", "}": "}", r"\}": "}", r"\rangle": ")"}
_DEPTH = dict.fromkeys((*_OPENING, r"\begin"), 1) | dict.fromkeys((*_CLOSING, r"\end"), -1)
_THOUSANDS = re.compile(r"\d{3}(?!\d)")
_PLUS_MINUS = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")


def compare(gold: str, answer: str, leaf: Leaf) -> bool | None:
    """Whether two normalised answers are equal.

    Parameters
    ----------
    gold, answer : str
        As `normalise` leaves them.
    leaf : callable (gold, answer) -> bool or None
        Decides on what is neither a number nor taken apart here.

    Returns
    -------
    bool or None
        None where `leaf` said so and nothing else decided.
    """
    verdict = exactly_equal(gold, answer)
    if verdict is not None:
        return verdict
    alike = _alike(gold, answer)
    if alike != (gold, answer):
        return compare(*alike, leaf)
    gold_brackets, gold_parts = parts(gold)
    brackets, answer_parts = parts(answer)
    if len(gold_parts) == len(answer_parts) == 1 and not gold_brackets and not brackets:
        return _compare_single(gold_parts[0], answer_parts[0], leaf)
    if len(gold_parts) == len(answer_parts) == 1 and {gold_brackets, brackets} <= {"", "()", "{}"}:
        return compare(gold_parts[0], answer_parts[0], leaf)
    if {gold_brackets, brackets} <= {"", "{}"}:
        several = len(gold_parts) > 1 and not all(_outer_brackets(part) for part in gold_parts)
        repeats = several and not (gold_brackets and brackets)
        return _compare_unordered(gold_parts, answer_parts, leaf, repeats=repeats)
    if brackets != gold_brackets and {brackets, gold_brackets} != {"", "()"}:
        # Brackets of one part can belong to an expression, [5] or (1): only a parser can tell.
        return False if len(gold_parts) > 1 or len(answer_parts) > 1 else leaf(gold, answer)
    return _compare_ordered(gold_parts, answer_parts, leaf)


def exactly_equal(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal as strings or as rational numbers; None where they are neither."""
    if answer == gold or comparison_key(answer) == comparison_key(gold):
        return True
    value, gold_value = exact_value(answer), exact_value(gold)
    if (value is None) != (gold_value is None):  # 2,74 where the other is a number
        value = decimal_comma(answer) if value is None else value
        gold_value = decimal_comma(gold) if gold_value is None else gold_value
    if value is not None and gold_value is not None:
        return value == gold_value or _rounds_to(gold, gold_value, answer, value)
    return _compare_based(gold, answer)


def parts(text: str) -> tuple[str, list[str]]:
    r"""Outer brackets and comma-separated parts of an answer.

    Returns
    -------
    brackets : {"", "()", "[]", "(]", "[)", "{}"}
        Empty for a bare list and for what is no list at all; ``\{`` and ``{`` are "{}".
    parts : list of str
        At least one. Commas between digits of a bare number separate thousands.
    """
    outer = _outer_brackets(text)
    if outer is None:
        return "", _split(_spread_plus_minus(text), thousands=True)
    opening, closing = outer
    inner = text[len(opening) : len(text) - len(closing)].strip()
    return _OPENING[opening] + _CLOSING[closing], _split(_spread_plus_minus(inner), thousands=False)


def _compare_single(gold: str, answer: str, leaf: Leaf) -> bool | None:
    if not _is_relation(gold) and _is_relation(answer):
        exact, *approximate = _sides(answer, r"\approx")
        if approximate and exact:
            verdict = compare(gold, exact, leaf)
            rounds = significant(gold) is not None and exact_value(exact) is None
            return compare(gold, approximate[-1], leaf) if verdict is False and rounds else verdict
        if len(sides := _sides(answer, "=")) > 1:
            return _compare_sides(gold, sides, leaf)
    if is_prose(gold) or is_prose(answer):
        return False
    if ("%" in answer) != ("%" in gold):
        return False
    letters, gold_letters = _letters(answer), _letters(gold)
    if letters != gold_letters and {*map(str.lower, letters)} == {*map(str.lower, gold_letters)}:
        return False  # the parser takes X for x
    return leaf(gold, answer)


def _letters(text: str) -> set[str]:
    """Letters of an answer that are not part of a LaTeX command."""
    return {character for character in _COMMAND.sub(" ", text) if character.isalpha()}


def _compare_sides(gold: str, sides: list[str], leaf: Leaf) -> bool | None:
    """Compare a chain such as ``AB = 2 + 3 = 5``: its last side counts, and none that is a number may differ.

    Otherwise ``1484 = 241`` would be right for two golds.
    """
    numbers = [side for side in sides[:-1] if side and not _letters(side)]
    return _compare_ordered([gold] * (len(numbers) + 1), [*numbers, sides[-1]], leaf)


def _compare_ordered(gold: list[str], answer: list[str], leaf: Leaf) -> bool | None:
    if len(gold) != len(answer):
        return False
    verdicts = [compare(*pair, leaf) for pair in zip(gold, answer, strict=True)]
    return False if False in verdicts else None if None in verdicts else True


def _compare_unordered(gold: list[str], answer: list[str], leaf: Leaf, *, repeats: bool) -> bool | None:
    """Match each part with one that equals it; equality is transitive, so the first that fits will do."""
    if repeats and len(gold) != len(answer):
        return False
    left, unknown = list(answer), False
    for expected in gold:
        verdicts = [compare(expected, given, leaf) for given in left]
        if True in verdicts:
            if repeats:
                del left[verdicts.index(True)]
        elif None in verdicts:
            unknown = True
        else:
            return False
    if not repeats and not unknown:  # as sets: nothing in the answer that is not in the gold
        covered = [[compare(expected, given, leaf) for expected in gold] for given in answer]
        if any(True not in verdicts and None not in verdicts for verdicts in covered):
            return False
        unknown = any(True not in verdicts for verdicts in covered)
    return None if unknown else True


def _alike(gold: str, answer: str) -> tuple[str, str]:
    """Two answers without what only one of them says beside the value: a label, an inequality's variable."""
    if _is_interval(gold) != _is_interval(answer):
        gold, answer = _as_interval(gold), _as_interval(answer)
    labels = [_LABEL.match(text) for text in (gold, answer)]
    bodies = [text[label.end() :] if label else text for label, text in zip(labels, (gold, answer), strict=True)]
    if any(_is_relation(body) for body in bodies):
        return gold, answer
    if labels[0] and labels[1] and labels[0][0].replace(" ", "") != labels[1][0].replace(" ", ""):
        return gold, answer
    return bodies[0], bodies[1]


def _sides(text: str, relation: str) -> list[str]:
    """What stands between the signs of a relation, outside of brackets."""
    return _between(text, [token for token in _top_level(text) if token[0] == relation])


def _is_relation(text: str) -> bool:
    return any(token[0] in _RELATIONS for token in _top_level(text))


def _is_interval(text: str) -> bool:
    text = text[label.end() :] if (label := _LABEL.match(text)) and label[1] != "=" else text
    return r"\cup" in text or text[:1] in ("(", "[")


def _as_interval(text: str) -> str:
    """An inequality about one variable as an interval, anything else as it is."""
    pieces = [piece.strip() for piece in _INEQUALITY.split(text)]
    if len(pieces) == 3 and _VARIABLE.fullmatch(pieces[2]):  # 5 < x: x > 5
        pieces = [pieces[2], {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}[pieces[1]], pieces[0]]
    if len(pieces) == 3 and _VARIABLE.fullmatch(pieces[0]):
        _, relation, bound = pieces
        if relation in ("<", r"\le"):
            return rf"(-\infty, {bound}" + (")" if relation == "<" else "]")
        return ("(" if relation == ">" else "[") + rf"{bound}, \infty)"
    if len(pieces) == 5 and _VARIABLE.fullmatch(pieces[2]):
        low, first, _, second, high = pieces
        if {first, second} <= {">", r"\ge"}:
            low, first, second, high = high, second, first, low
        elif not {first, second} <= {"<", r"\le"}:
            return text
        return ("(" if first in "<>" else "[") + f"{low}, {high}" + (")" if second in "<>" else "]")
    return text


def _outer_brackets(text: str) -> tuple[str, str] | None:
    """The bracket that opens a text and the one that closes it, if they enclose all of it."""
    depth, first, last = 0, None, None
    for token in _TOKEN.finditer(text):
        if first is None and (token.start() > 0 or token[0] not in _OPENING):
            return None
        first = first or token[0]
        depth += _DEPTH.get(token[0], 0)
        if depth == 0 and token[0] in _CLOSING:
            last = token
            break
    if last is None or last.end() != len(text):
        return None
    kinds = _OPENING[first] + _CLOSING[last[0]]  # type: ignore[index]
    return (first, last[0]) if kinds in ("()", "[]", "(]", "[)", "{}") else None  # type: ignore[return-value]


def _split(text: str, *, thousands: bool) -> list[str]:
    """Parts between the commas, semicolons and conjunctions that stand outside of all brackets."""
    separators = [token for token in _top_level(text) if token[0] in (",", ";", "and", "or")]
    if thousands:
        separators = [token for token in separators if not _separates_thousands(text, token)]
    pairs = [token for token in separators if token[0] == ";"]  # a=1, b=2; a=2, b=1
    return [part for part in _between(text, pairs or separators) if part] or [text]


def _separates_thousands(text: str, token: re.Match[str]) -> bool:
    return token[0] == "," and text[token.start() - 1].isdigit() and _THOUSANDS.match(text, token.end()) is not None


def _top_level(text: str) -> Iterator[re.Match[str]]:
    """Tokens of a text that stand outside of all brackets."""
    depth = 0
    for token in _TOKEN.finditer(text):
        change = _DEPTH.get(token[0], 0)
        depth += change
        if depth == 0 and not change:
            yield token


def _between(text: str, tokens: Iterable[re.Match[str]]) -> list[str]:
    """What stands before, between and after tokens, stripped."""
    ends = [0, *(position for token in tokens for position in token.span()), len(text)]
    return [text[start:end].strip() for start, end in zip(ends[::2], ends[1::2], strict=True)]


def _spread_plus_minus(text: str) -> str:
    r"""Both readings of a text with one ``\pm``, as a list."""
    if len(_PLUS_MINUS.findall(text)) != 1 or "," in text:
        return text
    label = _LABEL.match(text)
    body = text[label.end() :] if label else text
    return ", ".join(_PLUS_MINUS.sub(sign, body).strip().removeprefix("+").strip() for sign in "+-")


def _rounds_to(gold: str, gold_value: Fraction, answer: str, value: Fraction) -> bool:
    """Whether one is a decimal with many digits and the other no decimal, and rounds to it."""
    for text, rounded, other, exact in ((answer, value, gold, gold_value), (gold, gold_value, answer, value)):
        decimal = significant(text)
        if decimal is not None and decimal.digits >= ROUNDED_DIGITS and significant(other) is None:
            return abs(rounded - exact) * 2 <= Fraction(1, 10**decimal.places)
    return False


def _compare_based(gold: str, answer: str) -> bool | None:
    """Numerals with a base as subscript; None where there is none or the other is no numeral."""
    based, other = _BASED.fullmatch(gold), _BASED.fullmatch(answer)
    if based and other:
        if based[2] == other[2]:
            return based[1].lstrip("0") == other[1].lstrip("0")
        try:
            return int(based[1], int(based[2])) == int(other[1], int(other[2]))
        except ValueError:  # a base above 36, or a digit that it does not have
            return False
    if based or other:
        digits, plain = (based[1], answer) if based else (other[1], gold)  # type: ignore[index]
        return digits == plain if plain.isalnum() else None
    return None
