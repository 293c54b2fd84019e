r"""The exact value of an answer that is one rational number, by regular expressions and `Fraction`, without evaluation.

These are integers, decimals and repeating decimals, ``a/b``, ``\frac{a}{b}``, mixed numbers (``1\frac{1}{2}``,
``1 1/2``), ``a \times 10^{n}``, ``1.5e3``, ``1.5 million`` and "two". A sign may stand before each, and a percent sign
after it. A comma or a space between groups of three digits separates thousands.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = r"(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d+)(?:\.\d*)?"
_POWER_OF_TEN = r"(?: ?\\(?:times|cdot) ?10 ?\^ ?\{? ?([-+]?\d{1,3}) ?\}?|[eE]([-+]?\d{1,3}))?"
_DECIMAL = re.compile(f"({_NUMBER}){_POWER_OF_TEN}")
_DECIMAL_COMMA = re.compile(r"([-+]?\d+),(\d{1,2}|\d{4,})")
_PLAIN_DECIMAL = re.compile(rf"[-+]?(\d+)\.(\d+){_POWER_OF_TEN}")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?: ?([ap])m)?|(\d{1,2}) ?([ap])m")
_REPEATING = re.compile(r"(\d+)\.(\d*)\\overline ?\{ ?(\d+) ?\}")
_SLASH = re.compile(rf"(?:(\d+) )?({_NUMBER}) ?/ ?({_NUMBER})")
_LATEX = re.compile(rf"(?:(\d+) ?)?\\frac ?\{{ ?([-+]?) ?({_NUMBER}) ?\}} ?\{{ ?([-+]?) ?({_NUMBER}) ?\}}")
_SCALED = re.compile(r"(.+?) ?\b(dozen|hundred|thousand|million|billion|trillion)s?")
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_VALUES = {word: Fraction(value) for value, word in enumerate(_WORDS.split())}
#: A decimal with at least this many significant digits counts as a rounded value that a computer printed.
ROUNDED_DIGITS = 12
#: A double can be wrong by one part in this number.
DOUBLE = 10**15


def exact_value(normalised: str) -> Fraction | None:
    """Value of a normalised answer that is one rational number, else None."""
    sign = -1 if normalised.startswith("-") else 1
    body = normalised[1:].lstrip() if normalised[:1] in ("-", "+") else normalised
    percent = body.endswith("%")
    value = _unsigned_value(body[:-1].rstrip() if percent else body)
    if value is None:
        return None
    return sign * value / (100 if percent else 1)


def decimal_comma(normalised: str) -> Fraction | None:
    """Value of a number whose comma can only be a decimal comma: 1000,99 or 2,5, but not 1,234; else None."""
    match = _DECIMAL_COMMA.fullmatch(normalised)
    return Fraction(f"{match[1]}.{match[2]}") if match else None


def significant(normalised: str) -> tuple[int, int] | None:
    """Significant digits and decimal places, 3 and 4 for -0.0833 or 8.33e-2; None for an answer that is no decimal."""
    match = _PLAIN_DECIMAL.fullmatch(normalised)
    if match is None:
        return None
    digits = (match[1] + match[2]).lstrip("0")
    return len(digits), len(match[2]) - int(match[3] or match[4] or 0)


def rounded_places(normalised: str) -> int | None:
    """Decimal places of a decimal with enough digits to be a rounded value; None for anything else."""
    digits, places = significant(normalised) or (0, 0)
    return places if digits >= ROUNDED_DIGITS else None


def clock_seconds(normalised: str) -> set[int]:
    """Seconds since midnight that a time of day can mean: two values for 8:34, one for 20:34 and for 8:34 pm."""
    match = _CLOCK.fullmatch(normalised)
    if match is None:
        return set()
    hours, minutes, seconds = int(match[1] or match[5]), int(match[2] or 0), int(match[3] or 0)
    half = match[4] or match[6]
    if hours > 24 or minutes > 59 or seconds > 59 or (half and not 1 <= hours <= 12):
        return set()
    if half:
        return {(hours % 12 + 12 * (half == "p")) * 3600 + minutes * 60 + seconds}
    afternoon = {hours + 12} if 1 <= hours < 12 else {0, 12} if hours == 12 else set()
    return {hour * 3600 + minutes * 60 + seconds for hour in {hours, *afternoon}}


def _unsigned_value(body: str) -> Fraction | None:
    if match := _DECIMAL.fullmatch(body):
        number, *exponents = match.groups()
        exponent = next((int(text) for text in exponents if text), 0)
        return _plain(number) * Fraction(10) ** exponent
    if match := _SLASH.fullmatch(body):
        whole, numerator, denominator = match.groups()
        return _ratio(whole, "", numerator, "", denominator)
    if match := _LATEX.fullmatch(body):
        return _ratio(*match.groups())
    if match := _REPEATING.fullmatch(body):
        whole, fixed, repeated = match.groups()
        return Fraction(f"{whole}.{fixed or 0}") + Fraction(int(repeated), 10 ** len(fixed) * (10 ** len(repeated) - 1))
    if body.isalpha():
        return _VALUES.get(body.lower())
    if (match := _SCALED.fullmatch(body)) and (value := _unsigned_value(match[1])) is not None:
        return value * _SCALES[match[2]]
    return None


def _plain(number: str) -> Fraction:
    return Fraction(number.replace(",", "").replace(" ", "").rstrip("."))


def _ratio(whole: str | None, above_sign: str, above: str, below_sign: str, below: str) -> Fraction | None:
    numerator, denominator = _plain(above), _plain(below)
    if denominator == 0:
        return None
    negative = (above_sign == "-") != (below_sign == "-")
    if whole is None:
        return (-numerator if negative else numerator) / denominator
    # 2 3/2 and 2 (-1/2) are not mixed numbers. They may be products, which are not evaluated here.
    mixed = not above_sign and not below_sign and 0 < numerator < denominator
    return int(whole) + numerator / denominator if mixed else None
