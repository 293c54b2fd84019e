r"""A second opinion on an answer: the string rules by which the MATH paper judged its models.

Hendrycks et al., "Measuring Mathematical Problem Solving With the MATH Dataset", 2021, arXiv 2103.03874. Evaluation
uses these rules beside the grader of this package, and the tables show how often the two differ. The two share no code,
so that an error in one is not an error in both. The component `boxed_answer` scores by these rules. Many published
numbers rest on the quirks of these rules:

- Strings are compared, never values: 0.25 is not ``\frac{1}{4}``, and 1,000 is not 1000. The one
  exception is 0.5, which is ``\frac{1}{2}``.
- The order of a list counts, and so does all that no rule below or of `_BEFORE` and `_AFTER` changes, even ``$``.
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

_UNIT = r"\text{ "
#: Applied from first to last: before the unit is split off, and after.
_BEFORE = [("\n", ""), (r"\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac"), (r"\left", "")]
_BEFORE += [(r"\right", ""), (r"^{\circ}", ""), (r"^\circ", ""), (r"\$", "")]
_AFTER = [(r"\%", ""), ("%", ""), (" .", " 0."), ("{.", "{0.")]

_ROOT_OF_NOTHING = re.compile(r"\\sqrt(?=\\sqrt|\Z)")
_ROOT_OF_A_CHARACTER = re.compile(r"\\sqrt([^{])", re.DOTALL)
_UNFINISHED_FRACTION = re.compile(r"\\frac([^{]?)(?=\\frac|\Z)", re.DOTALL)
_FRACTION_WITHOUT_BRACES = re.compile(r"\\frac([^{])(?:(\{)|(.))", re.DOTALL)
_QUOTIENT = re.compile(r"(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)")


def equivalent(answer: str, gold: str) -> bool:
    """Whether an extracted answer is the gold by the rules of the MATH paper; time is linear in the texts."""
    rewritten, rewritten_gold = normalise(answer), normalise(gold)
    return answer == gold if None in (rewritten, rewritten_gold) else rewritten == rewritten_gold


def normalise(text: str) -> str | None:
    """An answer in the spelling of the MATH paper; None if the published rules fail or the text is too long."""
    if len(text) > MAX_CHARACTERS:
        return None
    for old, new in _BEFORE:
        text = text.replace(old, new)
    text, *units = text.split(_UNIT)
    for old, new in _AFTER:
        text = text.replace(old, new)
    text = "0" + text if text.startswith(".") else text
    left, _, right = text.partition("=")
    text = right if text.count("=") == 1 and len(left) <= 2 else text
    if len(units) > 1 or _ROOT_OF_NOTHING.search(text):
        return None
    text = _ROOT_OF_A_CHARACTER.sub(r"\\sqrt{\1}", text).replace(" ", "")
    unfinished = _UNFINISHED_FRACTION.search(text)
    if unfinished and not unfinished[1]:
        return None
    if not unfinished:
        text = _FRACTION_WITHOUT_BRACES.sub(_braced, text)
    text = _QUOTIENT.sub(r"\\frac{\1}{\2}", text) if _QUOTIENT.fullmatch(text) else text
    return r"\frac{1}{2}" if text == "0.5" else text


def _braced(fraction: re.Match[str]) -> str:
    numerator, brace, denominator = fraction.groups()
    return rf"\frac{{{numerator}}}" + (brace or f"{{{denominator}}}")
