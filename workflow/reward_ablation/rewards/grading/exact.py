r"""The value of an answer, read here without the parser of math-verify and without evaluation as code.

`exact_value` is the value of one rational number, such as ``1 1/2``, ``1.5e3``, ``1.5 million``, ``5%`` or "two", or of
an expression of such numbers (``2+3``). A comma or a space between groups of three digits separates thousands.

`same_value` compares sums, products, fractions, powers and roots at fixed values of their variables. Whatever two
readers could read in two ways is left to math-verify: ``1/2x``, ``f(2)``, ``\sin 2x``.

`comparison` asks here, so that most answers need no parser. The component `majority` takes equal values for one answer.
"""

from __future__ import annotations

import re
import zlib
from fractions import Fraction

_NUMBER = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d,])|[1-9]\d{0,2}(?: \d{3})+(?![\d/])|\d+)(?:\.\d*)?"
_PLAIN = re.compile(r"[-+]?\d+(?:\.\d+)?", re.ASCII)
#: 2023-03-15, 3/15/2023: no difference and no quotient.
DATE = re.compile(r"\d{4}([-/])\d\d?\1\d\d?|\d\d?([-/])\d\d?\2\d{4}")
_REPEATING = re.compile(r"([-+]?)(\d+)\.(\d*)\\overline ?\{ ?(\d+) ?\}")
_SCALED = re.compile(r"(.+?) ?\b(dozen|hundred|thousand|million|billion|trillion)s?")
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ONES = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMERALS = [*_ONES, *_TEENS.split(), *(ten + one for ten in _TENS for one in _ONES)]
_VALUES = {"zero": Fraction(0)} | {word: Fraction(value) for value, word in enumerate(_NUMERALS)}
#: Fractions in words, such as two-thirds.
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_VALUES |= {one + part + s: _VALUES[one] / _PARTS[part] for one in _ONES[1:] for part in _PARTS for s in ("", "s")}
_MIXED = r"\d+ ?\\frac ?\{ ?\d+ ?\} ?\{ ?\d+ ?\}|\d+ \d+ ?/ ?\d+"
#: A mixed number, a number, a command, a variable with its index, or any other character.
_TOKEN = re.compile(rf"{_MIXED}|{_NUMBER}(?:[eE][-+]?\d{{1,3}})?|\\[a-zA-Z]+|[A-Za-z](?: ?_ ?(?:\w|\{{\w+\}}))?|\S")
_CONSTANTS = {"e": 2.718281828459045, r"\pi": 3.141592653589793, "i": 1j}
_GREEK = {rf"\{name}" for name in ("alpha", "beta", "gamma", "theta", "lambda", "mu", "omega", "phi", "rho")}
#: Most bits of a power that is computed here. Floats differ if they differ by more than this part of the largest term.
MAX_BITS, CLEARLY = 20_000, 1e-8

Value = Fraction | float | complex


def exact_value(normalised: str) -> Fraction | None:
    """Value of a normalised answer that is a rational number, or an expression with such a value; else None."""
    if _PLAIN.fullmatch(normalised):
        return Fraction(normalised)
    if DATE.fullmatch(normalised):
        return None
    if normalised.endswith("%"):
        value = None if "%" in normalised[:-1] else exact_value(normalised[:-1].rstrip())
        return None if value is None else value / 100
    if match := _REPEATING.fullmatch(normalised):
        sign, whole, fixed, repeated = match.groups()
        tail = Fraction(int(repeated), 10 ** len(fixed) * (10 ** len(repeated) - 1))
        return (-1 if sign == "-" else 1) * (Fraction(f"{whole}.{fixed or 0}") + tail)
    word = re.sub("[ -]", "", normalised, count=1)
    if word.isalpha() and word.lower() in _VALUES and normalised[0] != "-":
        return _VALUES[word.lower()]
    if match := _SCALED.fullmatch(normalised):
        value = exact_value(match[1])
        return None if value is None else value * _SCALES[match[2]]
    expression = _Expression(normalised)
    number = expression.value(0)
    return number if isinstance(number, Fraction) and not expression.has_variables else None


def same_value(gold: str, answer: str) -> bool | None:
    """Whether two expressions have the same value; None if this cannot be decided here.

    Numbers and rational functions are compared exactly, at three points. With roots or constants the values can only be
    different: if they agree to the digits of a double, only exact arithmetic can tell.
    """
    sides = _Expression(gold), _Expression(answer)
    for point in range(3):
        expected, given = (side.value(point) for side in sides)
        if expected is None or given is None:
            return None
        exact = isinstance(expected, Fraction) and isinstance(given, Fraction)
        least = CLEARLY * max(side.largest for side in sides)
        try:
            differ = expected != given if exact else abs(complex(expected) - complex(given)) > least
        except OverflowError:
            return None
        if differ or not exact:
            return False if differ else None
    return True


def has_value(text: str) -> bool:
    """Whether a text is an expression that is read here."""
    return _Expression(text).value(0) is not None


def real_value(text: str) -> float | None:
    """About the value of an expression without variables; None if it is not read here or not real."""
    expression = _Expression(text)
    value = expression.value(0)
    return None if value is None or isinstance(value, complex) or expression.has_variables else float(value)


class _Unclear(Exception):
    """The text is no expression that is read here."""


class _Expression:
    """A reader of one expression, by recursive descent. It computes the value while it reads."""

    def __init__(self, text: str) -> None:
        separated = "," in text and any(bracket in text for bracket in "([{")  # (1,234) is a pair
        self._tokens = ["" if separated else token for token in (*_TOKEN.findall(text), "")]
        self.has_variables = False

    def value(self, point: int) -> Value | None:
        """Value at one of three points; None if the expression is not read here. Without variables all are the same."""
        self._next, self._point, self.largest = 0, point, 1e-300
        try:
            value = self._sum()
            return value if self._token() == "" else None
        except (_Unclear, ArithmeticError, RecursionError):
            return None

    def _token(self) -> str:
        return self._tokens[self._next]

    def _take(self, *tokens: str) -> str:
        """The next token if it is one of these, else an empty string."""
        token = self._token()
        if token not in tokens:
            return ""
        self._next += 1
        return token

    def _require(self, condition: object) -> None:
        if not condition:
            raise _Unclear

    def _kept(self, value: Value) -> Value:
        """The value. The largest of all floats bounds the error of a sum."""
        if not isinstance(value, Fraction):
            self.largest = max(self.largest, abs(complex(value)))
        return value

    def _sum(self) -> Value:
        total: Value = Fraction(0)
        sign = self._take("-", "+") or "+"
        while sign:
            term = self._product()
            total = self._kept(total + term if sign == "+" else total - term)
            sign = self._take("+", "-")
        return total

    def _product(self) -> Value:
        value, divided = self._mixed() or self._power(), False
        while token := self._token():
            if operator := self._take(r"\cdot", r"\times", "*", "/"):
                # 1/2x and a/b·c can be read in two ways, a/b/c in one.
                self._require(operator == "/" or not divided)
                factor, divided = self._power(), operator == "/"
                value = value / factor if divided else value * factor
            elif token in (")", "}", "+", "-", "]") or divided or token[0].isdecimal():
                break
            else:
                value *= self._power()
        return self._kept(value)

    def _mixed(self) -> Fraction | None:
        """A mixed number, such as 1 1/2; a whole number before another fraction may be a product, and is unclear."""
        token = self._token()
        if not _is_mixed(token):
            return None
        self._next += 1
        whole, above, below = map(int, re.findall(r"\d+", token))
        self._require(0 < above < below and self._token() in ("", ")", "}", "+", "-"))
        return whole + Fraction(above, below)

    def _power(self) -> Value:
        base = self._atom()
        if not self._take("^"):
            return base
        exponent = self._atom()
        self._require(self._token() != "^")
        if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            self._require(abs(exponent) * bits <= MAX_BITS)
            return self._kept(base ** int(exponent))
        return self._kept(self._positive(base) ** complex(exponent))

    def _positive(self, value: Value) -> float:
        """A base of a root or power. The roots of other numbers have several meanings."""
        if isinstance(value, complex) or value < 0:
            raise _Unclear
        return float(value)

    def _bracketed(self, opening: str) -> Value:
        self._require(self._take(opening))
        value = self._sum()
        self._require(self._take({"(": ")", "[": "]", "{": "}"}[opening]))
        return value

    def _atom(self) -> Value:
        if (token := self._token()) in ("(", "{"):
            return self._bracketed(token)
        self._next += 1
        if token[:1].isdecimal():
            self._require(not _is_mixed(token))
            return Fraction(token.replace(",", "").replace(" ", "").rstrip("."))
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if token == r"\frac":
            return self._bracketed("{") / self._bracketed("{")
        if token == r"\sqrt":
            degree = self._bracketed("[") if self._token() == "[" else Fraction(2)
            return self._kept(self._positive(self._bracketed("{")) ** (1 / self._positive(degree)))
        self._require((token[:1].isalpha() and token.isascii()) or token in _GREEK)
        self._require(self._token() not in ("(", "'"))
        self.has_variables = True
        # A variable has the same value in gold and answer, because only its name and the point decide the value. The
        # numbers are free choices.
        return Fraction(zlib.crc32(f"{self._point} {token}".encode()) % 10007 + 1, 997 + self._point)


def _is_mixed(token: str) -> bool:
    return token[:1].isdecimal() and ("/" in token or "\\" in token)
