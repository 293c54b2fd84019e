r"""A second opinion on an answer: the string rules by which the MATH paper judged its models.

Hendrycks et al., "Measuring Mathematical Problem Solving With the MATH Dataset", 2021, arXiv 2103.03874. Evaluation
uses these rules beside the grader of this package, and the tables show how often the two differ. The two share no
code, so that an error in one is not an error in both. Many published numbers rest on the quirks of these rules:

- Strings are compared, never values: 0.25 is not ``\frac{1}{4}``, and 1,000 is not 1000. The one
  exception is 0.5, which is ``\frac{1}{2}``.
- The order of a list counts, and so does everything that is not named below, even a plain dollar sign.
- A percent sign is removed, so that ``10\%`` is 10 and not 1/10.
- Everything after ``\text{`` and a blank is a unit and is removed; a unit written otherwise stays.
- A left-hand side is removed if it has at most two characters, counting the blank before the sign: ``k = 5``.
- ``\frac12`` and ``\frac1{2}`` are completed, ``\frac{1}2`` is not; ``\sqrt[3]{2}`` is mangled, the same way each time.
- ``\left`` is removed as text, also from ``\leftarrow``.
- If a rule cannot be applied (two units, a root of nothing), the two answers must be the same string as written.
"""

from __future__ import annotations

import re

#: Longer texts are compared as written. The longest gold of MATH train has 159 characters.
MAX_CHARACTERS = 2000

#: Applied from first to last.
_BEFORE_UNITS = [
    ("\n", ""),
    (r"\!", ""),
    ("\\\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    (r"\left", ""),
    (r"\right", ""),
    (r"^{\circ}", ""),
    (r"^\circ", ""),
    (r"\$", ""),
]
_AFTER_UNITS = [(r"\%", ""), ("%", ""), (" .", " 0."), ("{.", "{0.")]

_UNIT = r"\text{ "
_ROOT_OF_NOTHING = re.compile(r"\\sqrt(?=\\sqrt|\Z)")
_ROOT_OF_A_CHARACTER = re.compile(r"\\sqrt([^{])", re.DOTALL)
_UNFINISHED_FRACTION = re.compile(r"\\frac([^{]?)(?=\\frac|\Z)", re.DOTALL)
_FRACTION_WITHOUT_BRACES = re.compile(r"\\frac([^{])(?:(\{)|(.))", re.DOTALL)
_INTEGER = r"(0|-?[1-9][0-9]*)"
_QUOTIENT = re.compile(f"{_INTEGER}/{_INTEGER}")


def equivalent(answer: str, gold: str) -> bool:
    """Whether an extracted answer is the gold by the rules of the MATH paper; time is linear in the texts.

    If one of them cannot be normalised, the strings are compared as written.
    """
    rewritten, rewritten_gold = _rewritten(answer), _rewritten(gold)
    if rewritten is None or rewritten_gold is None:
        return answer == gold
    return rewritten == rewritten_gold


def normalise(text: str) -> str:
    """An answer in the spelling of the MATH paper; as written, if a rule cannot be applied or the text is too long."""
    rewritten = _rewritten(text)
    return text if rewritten is None else rewritten


def _rewritten(text: str) -> str | None:
    """The normalised text; None if the published rules fail or the text is too long."""
    if len(text) > MAX_CHARACTERS:
        return None
    text, *units = _replaced(text, _BEFORE_UNITS).split(_UNIT)
    if len(units) > 1:
        return None
    text = _replaced(text, _AFTER_UNITS)
    text = _without_left_hand_side("0" + text if text.startswith(".") else text)
    if _ROOT_OF_NOTHING.search(text):
        return None
    text = _ROOT_OF_A_CHARACTER.sub(r"\\sqrt{\1}", text).replace(" ", "")
    return _with_written_out_fractions(text)


def _replaced(text: str, replacements: list[tuple[str, str]]) -> str:
    for old, new in replacements:
        text = text.replace(old, new)
    return text


def _without_left_hand_side(text: str) -> str:
    left, sign, right = text.partition("=")
    return right if sign and len(left) <= 2 and "=" not in right else text


def _with_written_out_fractions(text: str) -> str | None:
    r"""Put braces around single characters after ``\frac``, and write 0.5 and a quotient of integers as a ``\frac``."""
    unfinished = _UNFINISHED_FRACTION.search(text)
    if unfinished and not unfinished[1]:
        return None
    if not unfinished:
        text = _FRACTION_WITHOUT_BRACES.sub(_braced, text)
    if text == "0.5":
        return r"\frac{1}{2}"
    return _QUOTIENT.sub(r"\\frac{\1}{\2}", text) if _QUOTIENT.fullmatch(text) else text


def _braced(fraction: re.Match[str]) -> str:
    numerator, brace, denominator = fraction.groups()
    return rf"\frac{{{numerator}}}" + (brace or f"{{{denominator}}}")
