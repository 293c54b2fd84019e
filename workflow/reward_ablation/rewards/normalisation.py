r"""One way to write an answer: canonical LaTeX, and exact values where the answer is a number.

Nothing here evaluates an answer: regular expressions rewrite it, and `Fraction` holds its value.
Callers bound the length of the text first (`bounds.is_malformed`).

Rules
-----
- Dollar signs, ``\left`` and ``\right``, spacing commands, Markdown stars and a trailing stop go;
  ``\dfrac`` and ``\frac12`` become ``\frac{1}{2}``, ``\sqrt3`` becomes ``\sqrt{3}``.
- A comma between groups of three digits separates thousands; so do ``{,}``, ``\,`` and a space.
- A unit after a value goes where it is clear-cut: words in ``\text{}``, or plain words after a plain
  number (``72 eggs``, ``5 cm``). Words that change the value stay (``dozen``, ``million``, ``pm``).
  Degrees go.
- A percent sign stays and counts: 5% is 1/20, and not 5.
- An integer before a proper fraction is a mixed number: ``1\frac{1}{2}`` and ``1 1/2`` are 3/2.
- A rounded decimal is not the fraction that it rounds: 0.33 is not 1/3.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

_CHARACTERS = str.maketrans(
    {
        "\u2212": "-",
        "\u2013": "-",
        "\u00d7": r"\times ",
        "\u00b7": r"\cdot ",
        "\u03c0": r"\pi ",
        "\u221e": r"\infty ",
        "\u2264": r"\le ",
        "\u2265": r"\ge ",
        "\u2260": r"\ne ",
        "\u00b0": r"^\circ",
        "\u00b2": "^2",
        "\u00b3": "^3",
        "\uff05": "%",
        "\u20ac": "$",
        "\u00a3": "$",
    }
)

_NO_WORDS = re.compile(
    r"\\(?:begin|end|operatorname) ?\{[^{}]*\}|\{[lcr|]+\}|\\[a-zA-Z]+"
    r"|\b(?:sqrt|frac|sinh|cosh|tanh|arc(?:sin|cos|tan))\b"
)

_WORD = re.compile(r"[A-Za-z]{4,}|\d ?[ap]\.? ?m\b")

#: Words after a number that are part of its value, or that name it in a way that a unit does not.
_NOT_UNITS = (
    r"(?:dozens?|hundreds?|thousands?|millions?|billions?|trillions?|[ap]\.? ?m|pi|and|or|to|mod|half|halves|thirds?)"
)
_SHORT_UNITS = r"(?:[ckm]m|[km]g|lbs?|oz|ft|in|yd|mi|mph|kph|hrs?|min|secs?|m[lL])"  # a single letter may be a variable
_TEXT = r"\\(?:text|textnormal|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|rm|bf)"
#: A command after two backslashes is one that was escaped twice: a new row of a matrix does not begin so.
_ESCAPED_COMMAND = (
    r"(?<!\\)\\\\(?=(?:[dt]?frac|sqrt|text|mathrm|boxed|left|right|cdot|times|pi|infty|leq?|geq?|neq?|cup|cap|in|begin|end)"
    r"(?![a-zA-Z]))"
)
_POWER = r"(?:\^\{?[23]\}?)?"

_REWRITES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (_ESCAPED_COMMAND, r"\\"),
        (r"(?<!\\)\\! ?", ""),
        (r"(?<!\\)\\[,;: ]|~|\\q?quad(?![a-zA-Z])", " "),
        (r"\\?\$|\*\*", ""),
        (r"(?<!\\)\\[()\[\]]", ""),
        (r"\{,\}", ","),
        (r"\\(?:left|right) ?\.", ""),
        (r"\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])", ""),
        (r"\\(?:displaystyle|textstyle)(?![a-zA-Z])", ""),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\(le|ge|ne)q(?![a-zA-Z])", r"\\\1"),
        (r"!=|<>", r"\\ne "),
        (r"<=", r"\\le "),
        (r">=", r"\\ge "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (rf"{_TEXT} ?\{{ ?(?:percent(?:age)?|pct) ?\}}|\b(?:percent(?:age)?|pct)\b|\\%", "%"),
        (r" +%", "%"),
        (r"\^ ?\{? ?\\circ ?\}?|\\degrees?(?![a-zA-Z])", ""),
    ]
]

_TEXT_UNIT = re.compile(
    rf"(?<=[\w)}}]) ?/? ?{_TEXT} ?\{{ ?(?!{_NOT_UNITS}\b)(?![eijxyz] ?\}})[A-Za-z][A-Za-z ./]*\}}{_POWER}$"
)
_PLAIN_UNIT = re.compile(
    rf"^([-+]?[\d.,]*\d|[-+]?\d+/\d+|[-+]?\\frac\{{\d+\}}\{{\d+\}})"
    rf"(?: ?{_SHORT_UNITS}{_POWER}|(?: (?!{_NOT_UNITS}\b)[A-Za-z]{{3,}}){{1,4}}{_POWER})$"
)
_TEXT_WORD = re.compile(rf"\$?{_TEXT} ?\{{ ?[A-Za-z][A-Za-z. ]+\}}\$?")
_CONJUNCTION = re.compile(rf"{_TEXT} ?\{{ ?(and|or) ?\}}")
_TEXT_COMMAND = re.compile(rf"{_TEXT} ?\{{([^{{}}]*)\}}")
_COMPLETIONS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"\\frac ?(\d) ?(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\frac ?(\d) ?\{"), r"\\frac{\1}{"),
    (re.compile(r"(\\frac ?\{[^{}]*\}) ?(\d)"), r"\1{\2}"),
    (re.compile(r"\\sqrt ?(\d)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<!\d)\.(?=\d)"), "0."),
    (re.compile(r"^\(([A-Za-z])\)$"), r"\1"),  # a choice
]

_NUMBER = r"(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d+)(?:\.\d*)?"
_DECIMAL = re.compile(rf"({_NUMBER})(?: ?\\(?:times|cdot) ?10 ?\^ ?\{{? ?([-+]?\d{{1,3}}) ?\}}?|[eE]([-+]?\d{{1,3}}))?")
_DECIMAL_COMMA = re.compile(r"([-+]?\d+),(\d{1,2}|\d{4,})")
_PLAIN_DECIMAL = re.compile(r"[-+]?(\d+)\.(\d+)")
_REPEATING = re.compile(r"(\d+)\.(\d*)\\overline ?\{ ?(\d+) ?\}")
_SLASH = re.compile(rf"(?:(\d+) )?({_NUMBER}) ?/ ?({_NUMBER})")
_LATEX = re.compile(rf"(?:(\d+) ?)?\\frac ?\{{ ?([-+]?) ?({_NUMBER}) ?\}} ?\{{ ?({_NUMBER}) ?\}}")


def normalise(text: str) -> str:
    r"""Canonical form of an answer, still LaTeX that a parser can read.

    Parameters
    ----------
    text : str
        An answer as extracted.

    Returns
    -------
    str
        By the rules at the head of this module; empty where nothing is left. Applying it twice
        changes nothing more for the answers of MATH and GSM8K.
    """
    if text.isdecimal() and text.isascii():  # most answers of GSM8K
        return text
    text = " ".join(text.translate(_CHARACTERS).split())
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = " ".join(text.split()).rstrip(" .,;:")
    for pattern, replacement in _COMPLETIONS:
        text = pattern.sub(replacement, text)
    while (without_unit := _TEXT_UNIT.sub("", text)) != text:
        text = without_unit
    text = _TEXT_COMMAND.sub(r"\1", _CONJUNCTION.sub(r" \1 ", text))
    text = " ".join(text.split()).strip(" .,;:")
    text = _COMPLETIONS[-1][0].sub(r"\1", text)
    return _PLAIN_UNIT.sub(r"\1", text)


def comparison_key(normalised: str) -> str:
    """Key that is equal only for answers that say the same: spaces and single-character braces dropped.

    A space between two digits stays, since ``1 1/2`` is not ``11/2``. Words count without case,
    single letters with it.
    """
    key = re.sub(r" (?!\d)|(?<!\d) ", "", normalised)
    key = re.sub(r"([_^])\{(\w)\}", r"\1\2", key)
    return key.casefold() if is_prose(normalised) or (key.isalpha() and len(key) > 1) else key


def exact_value(normalised: str) -> Fraction | None:
    r"""Value of a normalised answer that is one rational number, else None.

    Reads integers, decimals, ``0.\overline{3}``, ``a/b``, ``\frac{a}{b}``, mixed numbers, ``a \times 10^{n}`` and
    ``1.5e3`` with exponents of at most three digits, each with a sign before and a percent sign after.
    """
    sign = -1 if normalised.startswith("-") else 1
    body = normalised[1:].lstrip() if normalised[:1] in ("-", "+") else normalised
    percent = body.endswith("%")
    value = _unsigned_value(body[:-1].rstrip() if percent else body)
    if value is None:
        return None
    return sign * value / (100 if percent else 1)


def decimal_comma(normalised: str) -> Fraction | None:
    """Value of a number whose comma can only be a decimal one: 1000,99 or 2,5, but not 1,234."""
    match = _DECIMAL_COMMA.fullmatch(normalised)
    return Fraction(f"{match[1]}.{match[2]}") if match else None


class Significant(NamedTuple):
    """Digits of a decimal: all that count, and those after the point."""

    digits: int
    places: int


def significant(normalised: str) -> Significant | None:
    """Digits of a plain decimal such as -0.0833: 3 that count, 4 places; None for anything else."""
    match = _PLAIN_DECIMAL.fullmatch(normalised)
    return Significant(len((match[1] + match[2]).lstrip("0")), len(match[2])) if match else None


def is_prose(normalised: str) -> bool:
    """Whether words stand in an answer: four letters in a row that are no LaTeX command and no function, or am, pm.

    A parser would read a word as a product of variables, where "thing" equals "night".
    """
    return _WORD.search(_NO_WORDS.sub(" ", normalised)) is not None


def is_word(text: str) -> bool:
    r"""Whether an answer as written is nothing but words in ``\text{}``, and so no product of variables."""
    return _TEXT_WORD.fullmatch(text.strip()) is not None


def _unsigned_value(body: str) -> Fraction | None:
    if match := _DECIMAL.fullmatch(body):
        number, *exponents = match.groups()
        exponent = next((int(text) for text in exponents if text), 0)
        return _plain(number) * Fraction(10) ** exponent
    if match := _REPEATING.fullmatch(body):
        whole, fixed, repeated = match.groups()
        return Fraction(f"{whole}.{fixed or 0}") + Fraction(int(repeated), 10 ** len(fixed) * (10 ** len(repeated) - 1))
    if match := _SLASH.fullmatch(body):
        whole, numerator, denominator = match.groups()
        return _ratio(whole, "", numerator, denominator)
    if match := _LATEX.fullmatch(body):
        return _ratio(*match.groups())
    return None


def _plain(number: str) -> Fraction:
    return Fraction(number.replace(",", "").replace(" ", "").rstrip("."))


def _ratio(whole: str | None, sign: str, numerator: str, denominator: str) -> Fraction | None:
    above, below = _plain(numerator), _plain(denominator)
    if below == 0:
        return None
    if whole is None:
        return (-above if sign == "-" else above) / below
    # 2 3/2 and 2 (-1/2) are products if anything: not for this path to say.
    return int(whole) + above / below if not sign and 0 < above < below else None
