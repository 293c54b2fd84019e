r"""Units of measurement at the end of an answer.

`normalise` drops a unit, since most golds have none. Two answers that both name one must name the
same: 3 cm is not 3 m. Words that are no unit of measurement (``72 eggs``) say nothing here.
"""

from __future__ import annotations

import re

#: Spellings by unit; plurals with s are understood, and a power follows.
_SPELLINGS = {
    "mm": ("mm", "millimeter", "millimetre"),
    "cm": ("cm", "centimeter", "centimetre"),
    "m": ("m", "meter", "metre"),
    "km": ("km", "kilometer", "kilometre"),
    "in": ("in", "inch", "inches"),
    "ft": ("ft", "foot", "feet"),
    "yd": ("yd", "yard"),
    "mi": ("mi", "mile"),
    "mg": ("mg", "milligram"),
    "g": ("g", "gram"),
    "kg": ("kg", "kilogram"),
    "oz": ("oz", "ounce"),
    "lb": ("lb", "pound"),
    "ml": ("ml", "mL", "milliliter", "millilitre"),
    "l": ("L", "liter", "litre"),
    "s": ("s", "sec", "second"),
    "min": ("min", "minute"),
    "h": ("h", "hr", "hour"),
    "day": ("day",),
    "week": ("week",),
    "month": ("month",),
    "year": ("year", "yr"),
    "mph": ("mph",),
    "kph": ("kph", "km/h"),
    "cent": ("cent",),
    "dollar": ("dollar",),
    "radian": ("radian", "rad"),
    "degree": ("degree",),
}
_UNIT_OF = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}
_UNIT = re.compile(
    r"(?P<before>square |cubic |sq\.? )?(?P<word>[A-Za-z]+(?:/h)?)\.?\s*(?:\^?\{?(?P<power>[23])\}?)?$", re.ASCII
)
_WRAPPED = re.compile(r"\\(?:text|textnormal|textrm|mathrm|mbox|rm) ?\{([^{}]*)\}")
_AFTER_A_VALUE = re.compile(r"[\d)}\s]$")
_POWERS = {"square": "2", "sq": "2", "cubic": "3"}


def units_differ(gold: str, answer: str) -> bool:
    """Whether both answers end in a unit of measurement, and not in the same."""
    unit = measurement_unit(answer)
    return unit is not None and (measurement_unit(gold) or unit) != unit


def measurement_unit(answer: str) -> str | None:
    r"""Unit at the end of an answer with its power, such as "cm" or "cm^2"; None where there is none.

    A single letter counts only in ``\text{}`` or the like: in ``3m`` it may be a variable.
    """
    tail = answer[-60:].strip().strip("$").rstrip(" .}$")
    if not tail or not (tail[-1].isalpha() or tail[-1] in "23"):
        return None
    wrapped = _WRAPPED.search(answer[-60:]) is not None
    tail = _WRAPPED.sub(r" \1 ", answer[-60:]).strip(" .$")
    match = _UNIT.search(tail)
    if match is None or not _AFTER_A_VALUE.search(tail[: match.start()]):
        return None
    word = match["word"]
    unit = _UNIT_OF.get(word) or _UNIT_OF.get(word.lower().removesuffix("s"))
    if unit is None or (len(word) == 1 and not wrapped):
        return None
    power = match["power"] or _POWERS.get((match["before"] or "").strip(" ."))
    return f"{unit}^{power}" if power else unit
