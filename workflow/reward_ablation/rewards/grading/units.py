r"""Units and other words after a value.

A known unit is removed, because most golds have no unit: words in ``\text{}``, or plain words after a plain number
(``72 eggs``, ``5 cm``). Every other word stays (``72 dozen``, ``72 googol``), and so do two units (``5 ft 3 in``).
If both answers name a unit of `_SPELLINGS`, the units must be the same: 3 cm is not 3 m. Gallons and tons are only
counted: 3 gallons equal 3 liters.
"""

from __future__ import annotations

import re

from reward_ablation.rewards.grading.spelling import TEXT_COMMAND, spelled

#: What is counted in problems for children; the last line is of mathematics and money. No other word is dropped.
_COUNTED = """
acre adult animal apple bag ball balloon banana bead bill bird block boat book bottle bowl box boxes boy bracelet brick
brownie bunch bushel bus buses button cake calorie can candle candies candy car card carrot cat chair child children
chocolate class classes coin color cookie cow crayon crate cup cupcake customer dime dog doll donut duck egg employee
euro field fish flower foot fox foxes frog fruit gallon game gift girl glass glasses goat guest hat hen horse house item
jar jellybean job kid leaf leaves legs lemon letter lion lollipop man marble match matches meal member men mile movie
mug muffin necklace nickel notebook orange ounce pack package packet page painting pancake part peach peaches pear pen
pencil pennies penny people person pet petal photo picture pie piece pill pint pizza plant plate player point potato
potatoes present pumpkin puppies puppy quart question rabbit ring room rose row seat seed sheep sheet shell shelf
shelves shirt shoe shrimp slice snack sock song square stamp star step stick sticker stone strawberries strawberry
student sweet table tablespoon task teacher teaspoon test ticket tile time ton tomato tomatoes toy train tree trip truck
turtle unit vegetable vote way wheel window woman women word worker
digit integer number triangle value rectangle side solution usd
"""
#: Words that may stand before a unit, but not last.
_BEFORE_UNITS = frozenset({"additional", "different", "distinct", "right", "us", "sq", "cubic", "of", "per"})
_KNOWN = _BEFORE_UNITS.union(_COUNTED.split())
#: Letters that are units if they stand alone in `\text{}`, where a letter is no variable.
_LETTER_UNITS = frozenset("msglLh")
_POWER = r"(?:\^ ?\{?[23]\}?)?"
_VALUE = r"(?:[-+]?[\d.,]*+(?<=\d)|[-+]?\d+ ?/ ?\d+|[-+]?\d* ?\\frac\{\d+\}\{\d+\})"

#: Words in `\text{}` at the end of an answer, and plain words after a number or a bracket.
_WORDS_IN_TEXT = re.compile(rf"(?<=[\w)}}!]) ?/? ?{TEXT_COMMAND} ?\{{ ?\(?([A-Za-z][A-Za-z ./-]*+)\)?\}} ?{_POWER}$")
_PLAIN_WORDS = re.compile(
    rf"(?P<value>(?P<number>{_VALUE})|.*[)}}])(?P<gap> ?)\(?(?P<unit>(?:[A-Za-z]++\.?(?: ?/ ?| )?){{1,5}})\)?{_POWER}"
)

#: The spellings of each unit, the first of which is its name. Plurals with s are recognised too.
_SPELLINGS = """
mm millimeter millimetre; cm centimeter centimetre; m meter metre; km kilometer kilometre; in inch inches; ft foot feet
yd yard; mi mile; mL ml milliliter millilitre; L liter litre; mg milligram; g gram; kg kilogram; oz ounce; lb pound
s sec second; min minute; h hr hour; day; week; month; year yr; mi/h mph; km/h kph; cent; $ dollar; radian rad; degree
"""
_UNIT_OF = {word: words[0] for words in map(str.split, re.split("[;\n]", _SPELLINGS)) for word in words}
_POWERS = {"square": "2", "sq": "2", "cubic": "3"}
_TEXT = re.compile(rf"{TEXT_COMMAND} ?\{{([^{{}}]*)\}}")
_MONEY = re.compile(r"\\\$|^(?:US)?([$\u20ac\u00a3\u00a5\u20b9])\s?[\d.,]+$")


def without_unit(text: str) -> str:
    """A spelled answer without the unit after its value."""
    match = _WORDS_IN_TEXT.search(text)
    if match and is_unit(match[1], in_text=True) and not _TEXT.search(text[: match.start()]):
        text = text[: match.start()]
    match = _PLAIN_WORDS.fullmatch(text)
    if match is None or len(match["unit"]) == 1:  # a letter may be a variable
        return text
    counted = match["number"] and match["gap"] and "/" not in match["unit"]  # 3 eggs, but not 3eggs
    known = is_unit(match["unit"]) if counted else all(map(_unit, re.split(r"[ ./]+", match["unit"].strip(" ."))))
    return match["value"] if known else text


def unwrapped(text: str) -> str:
    r"""A text with the content of each ``\text{}`` in its place."""
    return " ".join(_TEXT.sub(r" \1 ", text).split())


def units_differ(gold: str, answer: str) -> bool:
    """Whether both answers, as written, have a unit of measurement or a percent sign, and the two differ."""
    both = {measurement_unit(gold), measurement_unit(answer)}
    return len(both) > 1 and None not in both and ("" not in both or "%" in both)  # 60 eggs are not 60%


def measurement_unit(answer: str) -> str | None:
    """Unit of an answer with its power, such as "cm" or "cm^2", or "%"; "" for eggs, None if there is no unit."""
    if answer.isdecimal():  # most answers of GSM8K
        return None
    text = spelled(answer)
    if text.endswith("%"):
        return "%"
    value = without_unit(text)
    plain = unwrapped(value)
    if tail := plain[len(without_unit(plain)) :] + unwrapped(text[len(value) :]):
        words = re.findall("[A-Za-z]+", tail)
        power = next((_POWERS[word] for word in words if word in _POWERS), "".join(re.findall("[23]", tail)))
        unit = "/".join(filter(None, map(_unit, words)))
        return f"{unit}^{power}" if unit and power else unit
    if "°" in answer or r"\circ" in answer:
        return "degree"
    money = _MONEY.search(answer.strip())
    return (money[1] or "$") if money else None


def unit_name(word: str) -> str:
    """One name for the spellings of a unit or of anything that is counted."""
    return _unit(word) or word.lower().removesuffix("s")


def _unit(word: str) -> str | None:
    """The unit of measurement with this spelling; None if there is none."""
    return _UNIT_OF.get(word) or _UNIT_OF.get(word.lower()) or _UNIT_OF.get(word.lower().removesuffix("s"))


def is_unit(words: str, *, in_text: bool = False) -> bool:
    r"""Whether words after a value are a unit and do not change the value; in `\text{}` a letter is no variable."""
    if in_text and len(words.strip()) == 1:
        return words.strip() in _LETTER_UNITS
    found = re.findall(r"square|cubic|sq(?=u)|[A-Za-z]+", words)
    if not found or found[-1].lower() in _BEFORE_UNITS:
        return False
    return all(_unit(word) or {word.lower(), word.lower().removesuffix("s")} & _KNOWN for word in found)
