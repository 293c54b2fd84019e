"""Answers in their formats, and the ways to write a rational number."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

FORMATS = ["boxed", "hash", "final", "tag"]


def marked(answer: str, answer_format: str) -> str:
    """An answer where its format wants it."""
    return {
        "boxed": rf"\boxed{{{answer}}}",
        "hash": f"\n#### {answer}",
        "final": f"\nFinal: {answer}",
        "tag": f"<answer>{answer}</answer>",
    }[answer_format]


def notations(value: Fraction) -> list[str]:
    """Exact ways to write a number, at least two: also decimal, percent, scientific and mixed where it can be done."""
    sign, p, q = ("-" if value < 0 else ""), abs(value.numerator), value.denominator
    written = [rf"{sign}\frac{{{p}}}{{{q}}}", f"{sign}{p}/{q}", rf"{sign}\dfrac{{{2 * p}}}{{{2 * q}}}"]
    if 10**40 % q == 0:
        with localcontext() as context:
            context.prec = 400
            decimal = Decimal(p) / Decimal(q)
            percent, small = decimal * 100, decimal.scaleb(-3)
        written += [f"{sign}{decimal:f}", f"{sign}{decimal:,f}", rf"{sign}{percent:f}\%"]
        written += [f"{sign}{decimal:f}000" if q > 1 else f"{sign}{p}.00"]
        written += [rf"{sign}{small:f} \times 10^{{3}}", f"{sign}{decimal * 1000:f}e-3"]
    if q > 1 and p > q:
        written += [rf"{sign}{p // q}\frac{{{p % q}}}{{{q}}}", f"{sign}{p // q} {p % q}/{q}"]
    return written
