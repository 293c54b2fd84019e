r"""Equality of two LaTeX expressions, by math-verify's parser and sympy: only ever in the worker process.

math-verify reads the LaTeX. Numbers and formulae are then compared by value: its own comparison has
an absolute tolerance, under which 1/2006! equals 1/2004!. What has no value, such as a union of
intervals, is compared by math-verify.
"""

from __future__ import annotations

from itertools import product

import sympy
from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Expr, MatrixBase
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from reward_ablation.rewards.comparison import ROUNDED_DIGITS
from reward_ablation.rewards.normalisation import significant

_VANISHING = sympy.Float("1e-900")
#: Where formulae are compared: no zeros, signs or symmetries that make different ones agree.
_POINTS = [sympy.Rational(*ratio) for ratio in ((731, 503), (1193, 311), (457, 809), (2111, 1201), (389, 673))]

_CONSTANTS = {"i": sympy.I, "e": sympy.E}

#: What has no value that is quick to find: left to math-verify.
_UNEVALUATED = (AppliedUndef, sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative)

# LaTeX only: the extraction of plain expressions hands text to sympy's parse_expr, which is eval.
_LATEX = [LatexExtractionConfig(boxed_match_priority=0)]


class Unreadable(Exception):
    """The answer cannot be parsed."""


def equal(gold: str, answer: str) -> bool:
    """Whether two normalised LaTeX expressions are equal; `Unreadable` where the answer is none."""
    given = read(answer)
    if not given:
        raise Unreadable
    expected = read(gold)
    if not expected:
        return False
    verdict = same(expected[0], given[0], rounded_places(answer))
    return verdict if verdict is not None else verify(expected, given, timeout_seconds=None)


def read(text: str) -> list:
    """What math-verify reads in an answer: a sympy object and its source, or nothing."""
    boxed = "\\boxed{" + text.replace("%", r"\%") + "}"
    return parse(boxed, _LATEX, fallback_mode="no_fallback", parsing_timeout=None)


def rounded_places(answer: str) -> int | None:
    """Decimal places of an answer that is a decimal with enough digits to be a value, rounded."""
    decimal = significant(answer)
    return decimal.places if decimal and decimal.digits >= ROUNDED_DIGITS else None


def same(expected: Basic, given: Basic, places: int | None = None) -> bool | None:
    """Whether two sympy objects are equal as values; None where they have none to compare.

    Parameters
    ----------
    expected, given : sympy objects
    places : int, optional
        `given` is a decimal that may be rounded to so many places.
    """
    expected, given = without_floats(expected), without_floats(given)
    if any(isinstance(side, Basic) and side.has(sympy.zoo, sympy.nan) for side in (expected, given)):
        return False  # 12:00 is no ratio, nor is 1:00
    if expected == given:
        return True
    if isinstance(expected, MatrixBase) and isinstance(given, MatrixBase):
        if expected.shape != given.shape:
            return False
        verdicts = [same(*pair) for pair in zip(expected, given, strict=True)]
        return False if False in verdicts else None if None in verdicts else True
    if any(isinstance(side, Basic) and side.free_symbols and side.has(*_UNEVALUATED) for side in (expected, given)):
        return None
    if isinstance(expected, Relational) and isinstance(given, Relational):
        return same_relation(expected, given)
    if not (isinstance(expected, Expr) and isinstance(given, Expr)):
        return None
    expected, given = _with_constants(expected), _with_constants(given)
    if places is not None and not expected.free_symbols:
        return bool(abs(sympy.N(expected - given, 30)) * 2 <= sympy.Rational(1, 10**places))
    return same_values(expected, given)


def same_values(expected: Expr, given: Expr) -> bool | None:
    """Whether two expressions have the same value wherever their symbols are put.

    Equal at all points, with positive and negative values: equal. Unequal at a point of positive
    values: not. Unequal only at others, as the square root of x squared and x are: None, since that
    is a matter of what the symbols may be.
    """
    symbols = sorted(expected.free_symbols | given.free_symbols, key=str)
    if not symbols:
        return close(expected, given)
    first = dict(zip(symbols, _POINTS * (len(symbols) // len(_POINTS) + 1), strict=False))
    second = {
        symbol: value + sympy.Rational(1, 2 + index) for index, (symbol, value) in enumerate(first.items(), start=1)
    }
    positive = [close(expected.subs(point), given.subs(point)) for point in (first, second)]
    if positive != [True, True]:
        return False if False in positive and None not in positive else None
    negative = {symbol: -value for symbol, value in first.items()}
    return close(expected.subs(negative), given.subs(negative)) or None


def same_relation(expected: Relational, given: Relational) -> bool | None:
    """Whether two equations or inequalities say the same: one is a multiple of the other."""
    left, right = (_one_sided(relation) for relation in (expected, given))
    if left[0] != right[0]:
        return None
    symbols = sorted(left[1].free_symbols | right[1].free_symbols, key=str)
    ratios = []
    for signs in product((1, -1), repeat=2):
        values = [sign * point for sign, point in zip(signs * len(symbols), _POINTS * len(symbols), strict=False)]
        point = dict(zip(symbols, values, strict=False))
        above, below = (side.subs(point).doit() for side in (left[1], right[1]))
        if not (above.is_number and below.is_number) or below.is_zero is not False:
            return None
        ratios.append(above / below)
    if any(close(ratio, ratios[0]) is not True for ratio in ratios[1:]):
        return None
    return bool(left[0] in ("==", "!=") or ratios[0].is_positive)


def close(expected: Expr, given: Expr) -> bool | None:
    """Whether two numbers are equal; None where one has no finite value.

    Rational numbers exactly; of others, nothing may be left of their difference in nine hundred
    digits, which is more than anyone can hide in an answer.
    """
    expected, given = expected.doit(), given.doit()
    if expected.is_Rational and given.is_Rational:
        return expected == given
    values = [sympy.N(number, 10) for number in (expected, given)]
    if not all(value.is_number and value.is_finite for value in values):
        return None
    left = abs(sympy.N(expected - given, 10, maxn=1000))
    return bool(left <= _VANISHING * max(1, *(abs(value) for value in values)))


def without_floats(expression: Basic) -> Basic:
    """A sympy object with decimals as the fractions that they are."""
    if not isinstance(expression, Basic | MatrixBase):
        return expression
    floats = expression.atoms(sympy.Float)
    return expression.xreplace({number: sympy.Rational(str(number)) for number in floats}) if floats else expression


def _with_constants(expression: Expr) -> Expr:
    """An expression in which i is the imaginary unit and e is Euler's number, as the parser leaves them to be."""
    named = {symbol: _CONSTANTS[str(symbol)] for symbol in expression.free_symbols if str(symbol) in _CONSTANTS}
    return expression.xreplace(named) if named else expression


def _one_sided(relation: Relational) -> tuple[str, Expr]:
    """An equation or inequality as `difference op 0` with op one of ==, !=, >, >=."""
    difference = relation.lhs - relation.rhs
    operator = relation.rel_op
    return (operator.replace("<", ">"), -difference) if operator in ("<", "<=") else (operator, difference)
