"""Answers that no parser may get, because a completion is hostile input. The worker's bounds are a second defence."""

from __future__ import annotations

import math
import re

MAX_CHARACTERS = 2000
MAX_NESTING = 20  # the deepest answer of MATH has 3; a parser's time doubles with each level
MAX_DIGITS = 1000  # in one run; int() itself refuses more than 4,300
MAX_EXPONENT = 3000
MAX_FACTORIAL = 3000

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_DIGIT_RUN = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
_EXPONENT = re.compile(r"(?:\^|\*\*)[\s{(+-]*(\d+)")
_TOWER = re.compile(r"(?:\^|\*\*)[\s{(+-]*(\d+)[\s)}]*(?:\^|\*\*)[\s{(+-]*(\d+)")
_BRACKET = re.compile(r"\\[{}]|\\[lr]angle|[()\[\]{}]")
_REPEATED_FACTORIAL = re.compile(r"![\s)}]*![\s)}]*!|[\^!][^()]*\)\s*!")  # 5!!!, (3!)!, (2^{9})!
_NESTED_EXPONENT = re.compile(r"\^\s*\{[^{}]*(?:\d\d!|\^[^{}]*\^|\^\s*\{[^{}]*\^)")  # 2^{50!}, e^{e^{e^{9}}}
_FACTORIAL = re.compile(r"(\d+)[\s)}]*!")


def is_malformed(answer: str) -> bool:
    """Whether a text is too long, too deep, unbalanced, or has broken UTF-8, control characters or too many digits."""
    return (
        len(answer) > MAX_CHARACTERS
        or _CONTROL.search(answer) is not None
        or _DIGIT_RUN.search(answer) is not None
        or not 0 <= _depth(answer) <= MAX_NESTING
    )


def is_too_costly(answer: str) -> bool:
    """Whether powers, towers of powers or factorials in an answer have more digits than can be written."""
    return (
        any(_above(exponent, MAX_EXPONENT) for exponent in _EXPONENT.findall(answer))
        or any(_power_above(base, exponent, MAX_EXPONENT) for base, exponent in _TOWER.findall(answer))
        or any(_above(number, MAX_FACTORIAL) for number in _FACTORIAL.findall(answer))
        or _REPEATED_FACTORIAL.search(answer) is not None
        or _NESTED_EXPONENT.search(answer) is not None
    )


def _depth(text: str) -> int:
    """Deepest nesting of brackets of any kind; -1 if braces do not balance (other brackets need not: [0, 1))."""
    depth = deepest = braces = 0
    for token in _BRACKET.findall(text):
        depth += 1 if token[-1] in "([{" or token == r"\langle" else -1
        deepest = max(deepest, depth)
        braces += {"{": 1, "}": -1}.get(token, 0)
        if braces < 0:
            return -1
    return deepest if braces == 0 else -1


def _above(digits: str, limit: int) -> bool:
    return len(digits.lstrip("0")) > len(str(limit)) or int(digits) > limit


def _power_above(base: str, exponent: str, limit: int) -> bool:
    if _above(base, limit) or _above(exponent, limit):
        return True
    return int(exponent) * math.log(max(int(base), 1)) > math.log(limit)
