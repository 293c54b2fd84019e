r"""Equality of two LaTeX expressions by math-verify's parser and sympy.

`math_worker` alone imports it, in its own process, where each answer has a limit on time and memory.

math-verify reads the LaTeX, and compares objects without a value, such as unions of intervals. Numbers and formulae are
compared here, by value, because math-verify has an absolute tolerance, under which 1/2006! equals 1/2004!.
"""

from __future__ import annotations

from itertools import count, cycle, product

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Expr, MatrixBase
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from reward_ablation.rewards.grading.comparison import all_true

#: Functions that grow or flatten as an exponential does.
_STEEP = (sympy.exp, sympy.factorial, sympy.gamma, sympy.sinh, sympy.cosh, sympy.tanh, sympy.coth)
_MOST = 10_000  # largest exponent that is compared
#: Values of symbols at which formulae are compared: free choices, without a simple relation to each other.
_NUMBERS = [sympy.Rational(*ratio) for ratio in ((731, 503), (1193, 311), (457, 89), (2111, 201), (389, 673))]
_CONSTANTS = {"i": sympy.I, "e": sympy.E}
#: Functions that are one formula here and another there. Few points can miss the place where they change.
_KINKED = (sympy.Abs, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling, sympy.sign, sympy.Piecewise)
#: Left to math-verify, because a value would take long to find or does not exist.
_UNEVALUATED = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative)

# LaTeX only: the extraction of plain expressions passes text to sympy's parse_expr, which is eval.
# `normalisation` removes units; the parser would remove the variables t, m, s and h with them.
_NORMALISATION = NormalizationConfig(units=False, malformed_operators=True, nits=True)
_LATEX = [LatexExtractionConfig(boxed_match_priority=0, normalization_config=_NORMALISATION)]


class TooCostly(Exception):
    """There is no verdict within the bounds, because more digits would have to be compared."""


def equal(gold: str, answer: str) -> bool | None:
    """Whether two expressions are equal; None if the answer cannot be parsed, False if only the gold cannot be."""
    expected, given = read(gold), read(answer)
    if not given:
        return None
    if not expected:
        return False
    verdict = same(expected[0], given[0])
    return verdict if verdict is not None else verify(expected, given, timeout_seconds=None)


def read(text: str) -> list:
    """The result of math-verify's parser for an answer: a sympy object and its source, or an empty list."""
    boxed = "\\boxed{" + text.replace("%", r"\%") + "}"
    return parse(boxed, _LATEX, fallback_mode="no_fallback", parsing_timeout=None)


def same(expected: Basic, given: Basic) -> bool | None:
    """Whether two sympy objects have the same value; None if they have no value."""
    expected, given = exact(expected), exact(given)
    if any(isinstance(side, Basic) and side.has(sympy.zoo, sympy.nan) for side in (expected, given)):
        return False  # 12:00 is no ratio, nor is 1:00
    if expected == given:
        return True
    if isinstance(expected, MatrixBase) and isinstance(given, MatrixBase):
        if expected.shape != given.shape:
            return False
        return all_true([same(*pair) for pair in zip(expected, given, strict=True)])
    if any(_is_unevaluated(side) for side in (expected, given)):
        expected, given = expected.doit(), given.doit()
        if any(_is_unevaluated(side) for side in (expected, given)):
            return None
    if isinstance(expected, Relational) and isinstance(given, Relational):
        return same_relation(expected, given) or False  # math-verify would compare the right sides alone
    if not (isinstance(expected, Expr) and isinstance(given, Expr)):
        return None
    return same_values(expected, given)


def same_values(expected: Expr, given: Expr) -> bool | None:
    """Whether two numbers are equal, or two formulae at a few points; None if one of them has no finite value."""
    symbols = sorted(expected.free_symbols | given.free_symbols, key=str)
    digits = digits_at_stake(expected, given)
    if not symbols:
        return close(expected, given, digits)
    if any(map(_has_kinks, (expected, given))):  # all signs, beyond every number in the formulae, and near zero
        parts = {part for side in (expected, given) for part in sympy.preorder_traversal(side) if part.is_number}
        sizes = [abs(sympy.N(part, 15)) for part in parts]
        if not all(size.is_finite for size in sizes):
            return None
        far = sympy.prod([2 + int(size) for size in sizes]) * 1000
        signs = product((1, -1), repeat=min(len(symbols), 4))
        points = [_point(symbols, *chosen) for chosen in product((1 / far, 1, far), signs)]
    else:  # the square root of n is compared at positive values alone
        points = [_point(symbols, size) for size in (1, 3, -1)]
        if not all(_is_real_at(side, points[-1]) for side in (expected, given)):
            points.pop()
    return all_true([close(expected.subs(point), given.subs(point), digits) for point in points])


def _point(symbols: list, size: Expr | int, signs: tuple[int, ...] = (1,)) -> dict:
    """Values of symbols. No zero, sign or symmetry makes different formulae agree there."""
    values = zip(symbols, cycle(signs), cycle(_NUMBERS), count(), strict=False)  # all but the first are endless
    return {symbol: sign * size * (number + index) for symbol, sign, number, index in values}


def _has_kinks(expression: Expr) -> bool:
    r"""Whether an expression is \|x\| or \sqrt{x^2} or the like."""
    roots = [power.base for power in expression.atoms(sympy.Pow) if not power.exp.is_integer]
    return expression.has(*_KINKED) or any(base.has(sympy.Pow) and base.free_symbols for base in roots)


def _is_real_at(expression: Expr, point: dict) -> bool:
    """Whether no root or logarithm of a negative number stands in an expression."""
    arguments = [power.base for power in expression.atoms(sympy.Pow) if not power.exp.is_integer]
    arguments += [logarithm.args[0] for logarithm in expression.atoms(sympy.log)]
    return not any(sympy.N(argument.subs(point), 10).is_negative for argument in arguments)


def digits_at_stake(*sides: Expr) -> int:
    """Number of digits to compute: 90, and more with large numbers, which can hide a difference.

    1 + e^{-3000} and 1 differ in the 1,303rd digit. `close` asks that all but the last 30 digits agree.
    """
    numbers = [number for side in sides for number in side.atoms(sympy.Rational)]
    sizes = [len(str(abs(part))) for number in numbers for part in (number.p, number.q)]
    for part in {part for side in sides for part in side.atoms(sympy.Pow, *_STEEP)}:
        exponent = part.exp if isinstance(part, sympy.Pow) else part.args[0]
        for number in [exponent] if exponent.is_number else exponent.atoms(sympy.Rational):
            size = abs(sympy.N(number, 10))
            if not size.is_finite or size > _MOST:
                raise TooCostly
            sizes.append(int(size))
    return 90 + 2 * max(sizes, default=0)


def same_relation(expected: Relational, given: Relational) -> bool | None:
    """Whether two equations or inequalities mean the same, because one is a multiple of the other; None if unclear."""
    left, right = (_one_sided(relation) for relation in (expected, given))
    if left[0] != right[0]:
        return None
    symbols = sorted(left[1].free_symbols | right[1].free_symbols, key=str)
    ratios = []
    for signs, size in product(((1,), (-1, 1)), (1, 3)):
        point = _point(symbols, size, signs)
        above, below = (side.subs(point).doit() for side in (left[1], right[1]))
        if not (above.is_number and below.is_number) or below.is_zero is not False:
            return None
        ratios.append(above / below)
    digits = digits_at_stake(left[1], right[1])
    if any(close(ratio, ratios[0], digits) is not True for ratio in ratios[1:]):
        return False
    return bool(left[0] in ("==", "!=") or ratios[0].is_positive)


def close(expected: Expr, given: Expr, digits: int) -> bool | None:
    """Whether two numbers are equal: rational ones exactly, others to `digits` - 30 digits; None if one is infinite."""
    expected, given = expected.doit(), given.doit()
    if expected.is_Rational and given.is_Rational:
        return expected == given
    if not all(value.is_number and value.is_finite for value in (sympy.N(expected, 10), sympy.N(given, 10))):
        return None
    # The scale is the largest term, not the sum: a sum that is exactly zero may show nothing but rounding noise.
    largest = max(abs(sympy.N(term, 10)) for side in (expected, given) for term in sympy.Add.make_args(side))
    difference = abs(sympy.N(expected - given, 10, maxn=digits))
    return bool(difference <= sympy.Rational(10) ** (30 - digits) * largest)


def exact(expression: Basic) -> Basic:
    """A sympy object with fractions for decimals, i and e for the parser's symbols, and a symbol for each f(2)."""
    if not isinstance(expression, Basic):  # a matrix, whose entries are compared one by one
        return expression
    expression = expression.xreplace({part: sympy.Rational(str(part)) for part in expression.atoms(sympy.Float)})
    expression = expression.xreplace({part: sympy.Symbol(str(part)) for part in expression.atoms(AppliedUndef)})
    named = {part: _CONSTANTS[str(part)] for part in expression.free_symbols if str(part) in _CONSTANTS}
    return expression.xreplace(named)


def _is_unevaluated(side: Basic) -> bool:
    return isinstance(side, Basic) and bool(side.free_symbols) and side.has(*_UNEVALUATED)


def _one_sided(relation: Relational) -> tuple[str, Expr]:
    """An equation or inequality as `difference op 0` with op one of ==, !=, >, >=."""
    difference = relation.lhs - relation.rhs
    operator = relation.rel_op
    return (operator.replace("<", ">"), -difference) if operator in ("<", "<=") else (operator, difference)
