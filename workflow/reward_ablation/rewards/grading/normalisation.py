r"""A canonical form of an answer, which most equal answers share: LaTeX in one spelling, without units.

1. Spelling. Dollar signs, ``\left`` and ``\right``, spacing, style and colour commands, Markdown stars and a trailing
   stop are removed. ``\dfrac`` and ``\frac12`` become ``\frac{1}{2}``, ``\sqrt3`` becomes ``\sqrt{3}``; ``√3``,
   ``x²``, ``2sqrt(3)``, ``3*x**2``, ``pi`` become LaTeX, and ``½`` becomes ``1/2``. Words before an answer ("The answer
   is") are removed.
2. Units. A known unit is removed, because most golds have no unit: words in ``\text{}``, or plain words after a plain
   number (``72 eggs``, ``5 cm``). Every other word stays (``72 dozen``, ``72 googol``), and so do two units (``5 ft 3
   in``). If both answers name a unit of `_SPELLINGS`, the units must be the same: 3 cm is not 3 m. Gallons and tons are
   only counted: 3 gallons equal 3 liters.
3. Words. Words for a symbol become the symbol, and a choice its letter. A percent sign stays, for `comparison`.
   ``\text{}`` is removed, and its words stay.

`comparison` brings both answers to this form, and the component `majority` the votes. Callers bound the length of the
text first (`grader.is_malformed`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby

# --- spelling

#: What characters become. The last ones become LaTeX commands.
_CHARACTERS: dict[str, str] = {
    **dict(zip("\u2212\u2010\u2011\u2013\u2044\u00f7\u2215\u2236\u2032\u2019€£¥₹", "----///:''$$$$", strict=True)),
    **dict.fromkeys("\u200b\u2060\ufeff", ""),
    **{"ℝ": r"\mathbb{R}", "°": r"^\circ", "。": ". ", "¢": r"\text{ cents}", "∛": "√[3]"},
}
_NAMES = "×times ·cdot ⋅cdot πpi θtheta ∞infty ≤le ≥ge ≠ne ≈approx ∈in ∪cup ∅emptyset ±pm ⟨langle ⟩rangle"
_CHARACTERS |= {item[0]: rf"\{item[1:]} " for item in _NAMES.split()}
_TRANSLATED = str.maketrans(_CHARACTERS)
#: What x², x₂ and 1½ become. All other characters become their compatible ones: （１，２） is (1,2).
_DECOMPOSED = {"<super>": "^{{}}", "<sub>": "_{{}}", "<fraction>": " {}"}
#: Known units alone. 万 and 倍 are not units, because they change the number.
_CHINESE_UNIT = re.compile(
    r"(?<=\d) ?([元个個人名只本张支颗台件块斤克米度天年月日岁次页]|小时|分钟|千克|公斤|厘米|千米|公里|円|원|개)$"
)
#: Those of them that are measures or currencies, by their names in `_SPELLINGS`. The others are counted.
_CHINESE_MEASURES = {
    **{"元": "元", "円": "円", "원": "원", "斤": "斤", "克": "g", "千克": "kg", "公斤": "kg", "度": "degree"},
    **{"米": "m", "厘米": "cm", "千米": "km", "公里": "km", "小时": "h", "分钟": "min", "天": "day", "日": "day"},
    **{"月": "month", "年": "year", "岁": "year"},
}

TEXT_COMMAND = (
    r"\\(?:text|textnormal|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathit|mathsf|mathtt|boldsymbol|bm|underline"
    r"|mbox|rm|bf)"
)
#: Two backslashes before one of these commands mean an escaped backslash, because no new row of a matrix begins so.
_ESCAPED_COMMAND = (
    r"(?<!\\)\\\\(?=(?:[dt]?frac|sqrt|text|mathrm|boxed|left|right|cdot|times|pi|infty|leq?|geq?|neq?|cup|cap|in|begin|end)"
    r"(?![a-zA-Z]))"
)
_FUNCTIONS = "sqrt|arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|ln|log|exp|pi|theta|infty"
_PERCENT = "(?:per ?cent(?:age)?|pct)"
_ARGUMENT = r"(?:\\[a-zA-Z]+(?![a-zA-Z{])|[\dA-Za-z])"  # what a command takes without braces

#: What commands become.
_COMMANDS = {
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), r"\frac"),
    **dict.fromkeys(("leq", "leqslant"), r"\le"),
    **dict.fromkeys(("geq", "geqslant"), r"\ge"),
    **dict.fromkeys(("R", "reals"), r"\mathbb{R}"),
    **dict.fromkeys(("degree", "degrees"), r"^\circ"),
    **dict.fromkeys(("dots", "cdots", "dotsb", "dotsc"), r"\ldots "),
    **{"neq": r"\ne", "lt": "<", "gt": ">", "mid": "|", "colon": ":", "varnothing": r"\emptyset"},
}
_DECORATION = """
left right big Big bigg Bigg bigl Bigl biggl Biggl bigm Bigm biggm Biggm bigr Bigr biggr Biggr limits nolimits
displaystyle textstyle scriptstyle large Large LARGE huge Huge small normalsize emph framebox mathcal mathscr
checkmark square blacksquare qed
"""
_COMMANDS |= dict.fromkeys(_DECORATION.split(), "")

#: Applied from first to last.
_RULES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (_ESCAPED_COMMAND, r"\\"),
    (r"^#+ ?|\\(?:begin|end) ?\{(?:align(?:ed)?|equation|gather(?:ed)?|split)\*?\}", ""),
    (r"\\(?:tag|hspace|(?:text)?color|phantom) ?\{[^{}]*\}|\{\}|(?<!\\)\\! ?|\\(?:left|right) ?\.", ""),
    (r"(?<!\\)\\[,;: ]|~|\\q?quad", " "),
    (r"\$(\d+) and (?=\d)", r"\1 dollars and "),  # $5 and 20 cents
    (r"(?:\bUS)?\\?\$|^Rs\.? ?(?=\d)|(?<!\\)\\[()\[\]]|\\(?:bf|it|rm|em)(?![a-zA-Z ]*\{)(?![a-zA-Z])", ""),
    (r"^\]([^][]+,[^][]+)\[$", r"(\1)"),  # ]0,1[ is an open interval
    (r"\\([a-zA-Z]+)", lambda command: _COMMANDS.get(command[1], command[0])),
    (r"(?<![\d)])!=|<>", r"\\ne "),
    (r"^\\\{ ?\\\}$", r"\\emptyset"),
    (r"(?<=[^{]) ?\\\} ?\\cup ?\\\{ ?(?!\\)", ", "),  # a union of sets is one set
    (r"\\mathbb ?\{? ?R ?\}?", r"\\mathbb{R}"),
    (r"\\log_ ?\{? ?e ?\}?(?![a-zA-Z])", r"\\ln "),
    (r"\\+$", ""),
    (rf"{TEXT_COMMAND} ?\{{ ?{_PERCENT} ?\}}|(?<![A-Za-z]){_PERCENT}(?![A-Za-z])|\\%", "%"),
    (r"(?<=\d)\^ ?\{? ?o ?\}?(?![a-zA-Z])|\\text ?\{ ?\^\\circ ?\}", r"^\\circ"),
    # dots and congruences
    (r"(\d\.\d*?)(\d)\2{2,}(?: ?\.\.\.| ?\\ldots)$", r"\1\\overline{\2}"),
    (r"\.\.\.", r"\\ldots "),
    (r"\(? ?\\[pb]?mod(?![a-zA-Z]) ?\{? ?([\da-z]+) ?\}? ?\)?", r" mod \1"),
    (r"(\d\.\d*)(?:\\(?:bar|dot) ?\{? ?(\d+) ?\}?|\((\d+)\)$)", r"\1\\overline{\2\3}"),
    # plain text that means mathematics
    (r"^[*`]+|[*`]+$", ""),
    (r"(?<=[\w)}])\*\*(?=[\w({-])", "^"),
    (r" ?\*+ ?", r"\\cdot "),
    (r"(?<![\\A-Za-z])(?:infinity|inf|oo)(?![A-Za-z])", r"\\infty "),
    (rf"(?<![\\A-Za-z])({_FUNCTIONS})(?![A-Za-z])", r"\\\1 "),
    (r"\\sqrt ?\(([^()]*)\)", r"\\sqrt{\1}"),
    (r"\^ ?(-?\d+)", r"^{\1}"),
    # arguments without braces: the first, then the second
    *[(rf"(\\frac ?(?:\{{[^{{}}]*\}})?|\\sqrt ?(?:\[[^\]]*\])?) ?({_ARGUMENT})", r"\1{\2}")] * 2,
    (r"(?<!\d)\.(?=\d)", "0."),
    (r"\(([0-9A-F]+)\) ?_", r"\1_"),  # a number and its base
    (
        rf"(?<=\d) ?(?:{TEXT_COMMAND} ?\{{)? ?\b([aApP])\.? ?[mM]\b\.? ?\}}?",
        lambda half: f" {half[1].lower()}m",
    ),
]
_REWRITES = [(re.compile(pattern), replacement) for pattern, replacement in _RULES]
_DEGREES = re.compile(r" ?\^ ?\{? ?\\circ ?\}?(?: ?(?:\\(?:text|mathrm) ?\{ ?[CF] ?\}|[CF](?![A-Za-z])))?")
_ANGLE = re.compile(r"(\d+(?:\.\d+)?|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|\\[a-z]+|\([^()]*\)) ?\^ ?\{? ?\\circ ?\}?")
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_INTRODUCTION = re.compile(
    rf"^(?:{TEXT_COMMAND} ?\{{)? ?"
    r"(?:(?:the )?(?:final )?answer(?: ?(?:is|:|=))*+|approximately|about|USD|=|\\approx) ?\}? ?(?=[^a-zA-Z\s])",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def spelled(text: str) -> str:
    """An extracted answer in one spelling of LaTeX, with single spaces."""
    if not text.isascii():
        text = _without_unicode(text)
    text = " ".join(text.split())
    text = text.replace("{,}", ",").replace("<=", r"\le ").replace(">=", r"\ge ")
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    if r"\begin" not in text:
        text = text.replace("&", "")  # left over from a removed environment
    if r"\circ" in text and _TRIGONOMETRIC.search(text):
        text = _ANGLE.sub(r"(\1\\cdot\\frac{\\pi}{180})", text)  # radians
    elif r"\circ" in text:
        text = _DEGREES.sub("", text)
    return " ".join(_INTRODUCTION.sub("", text).split()).rstrip(" .,;:")


def _without_unicode(text: str) -> str:
    """The text with mathematical characters as LaTeX; other characters stay."""
    kinds = groupby(text, lambda character: unicodedata.decomposition(character).partition(" ")[0])
    runs = ((kind, unicodedata.normalize("NFKC", "".join(run))) for kind, run in kinds)
    text = "".join(_DECOMPOSED.get(kind, "{}").replace("{}", plain, 1) for kind, plain in runs)
    text = _CHINESE_UNIT.sub("", text.removeprefix("答案").lstrip("是为: ") if text.startswith("答案") else text)
    return re.sub(r"√(\[3\])? ?(\d+|[A-Za-z]|\([^()]*\))", r"\\sqrt\1{\2}", text.translate(_TRANSLATED))


# --- units

#: What is counted in problems for children; the last line is of mathematics. Of other words only those of
#: `_BEFORE_UNITS` and `_SPELLINGS` are dropped.
_COUNTED = """
acre adult animal apple bag ball balloon banana bead bill bird block boat book bottle bowl box boxes boy bracelet brick
brownie bunch bushel bus buses button cake calorie can candle candies candy car card carrot cat chair child children
chocolate class classes coin color cookie cow crayon crate cup cupcake customer dime dog doll donut duck egg employee
field fish flower foot fox foxes frog fruit gallon game gift girl glass glasses goat guest hat hen horse house item
jar jellybean job kid leaf leaves legs lemon letter lion lollipop man marble match matches meal member men mile movie
mug muffin necklace nickel notebook orange ounce pack package packet page painting pancake part peach peaches pear pen
pencil pennies penny people person pet petal photo picture pie piece pill pint pizza plant plate player point potato
potatoes present pumpkin puppies puppy quart question rabbit ring room rose row seat seed sheep sheet shell shelf
shelves shirt shoe shrimp slice snack sock song square stamp star step stick sticker stone strawberries strawberry
student sweet table tablespoon task teacher teaspoon test ticket tile time ton tomato tomatoes toy train tree trip truck
turtle unit vegetable vote way wheel window woman women word worker
digit integer number triangle value rectangle side solution
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
s sec second; min minute; h hr hour; day; week; month; year yr; mi/h mph; km/h kph; cent; $ dollar usd; € euro
radian rad; degree
"""
_UNIT_OF = {word: words[0] for words in map(str.split, re.split("[;\n]", _SPELLINGS)) for word in words}
_POWERS = {"square": "2", "sq": "2", "cubic": "3"}
_TEXT = re.compile(rf"{TEXT_COMMAND} ?\{{([^{{}}]*)\}}")
#: A currency before or after its number. A dollar sign may also enclose a formula.
_MONEY = re.compile(
    r"([€£¥₹])|\\\$|^[-+\u2212]?(?:US)?\$\s?[-+\u2212]?[\d.,]*\d[\d.,]*(?:\s[A-Za-z ]+)?$|^[^$]*\d\s?\$$|^USD?\s?\d"
)
#: The scale of a temperature.
_SCALE = re.compile(r"(?:°|\\circ|\\degrees?)(?:[\s{}~]|\\[,;: ]|\\(?:text|mathrm|rm)(?![a-zA-Z]))*([CF])(?![A-Za-z])")
#: Units that may be the same: ¥ is the sign of two currencies, and a degree may be of any scale.
_MAY_BE_SAME = [{"¥", "元"}, {"¥", "円"}, {"degree", "degree C"}, {"degree", "degree F"}]


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
    """Whether two answers, as written, have different units. What is counted, as eggs, differs from percent alone."""
    pairs = [{unit(gold), unit(answer)} for unit in (measurement_unit, _currency)]  # €5 per day is not $5 per day
    differing = [both for both in pairs if len(both) > 1 and None not in both and both not in _MAY_BE_SAME]
    return any("" not in both or "%" in both for both in differing)  # 60 eggs are not 60%


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
    answer = unicodedata.normalize("NFKC", answer.strip())  # ℃ is °C, and ￥ is ¥
    if counted := _CHINESE_UNIT.search(answer):
        return _CHINESE_MEASURES.get(counted[1], "")
    if scale := _SCALE.search(answer):
        return f"degree {scale[1]}"
    if "°" in answer or r"\circ" in answer or r"\degree" in answer:
        return "degree"
    return _currency(answer)


def _currency(answer: str) -> str | None:
    """Sign of the currency of an answer as written; None if there is no sign."""
    money = _MONEY.search(unicodedata.normalize("NFKC", answer.strip()))
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


# --- words

_PLAIN_NUMBER = re.compile(r"(?:\\?\$)?([-+]?\d(?:[\d,]*\d)?(?:\.\d+)?)(?:\\?(%))?\.?", re.ASCII)
#: LaTeX with letters that are no words: environments, their columns, and commands.
_NO_WORDS = re.compile(r"\\(?:begin|end|operatorname) ?\{[^{}]*\}|\{[lcr|]+\}|\\[a-zA-Z]+")
#: Four letters in a row, "by", or a word between two values: 3 to 4, 2 mod 5, 1 R 2.
_WORD = re.compile(
    r"[A-Za-z]{4,}|\bby\b|(?<=[\w)}\]] )(?!and |or |d[a-z] )[A-Za-z]{2,3}(?= [\w({\[])|(?<=\d )[A-Za-z](?= \d)",
    re.ASCII,
)
_CHOICE = re.compile(r"\(?([A-J])\)|(?:[Oo]ption|[Cc]hoice|[Aa]nswer) \(?([A-J])\)?|([A-J])[.:)] (.+)|\(([A-J])\) (.+)")
#: ASCII only, because Chinese and Japanese text has no space around a letter: "B. 或C" names two choices.
_OTHER_CHOICE = re.compile(r"\b(?:and|or|not)\b|[,/&]|\([A-J]\)|\b[B-J]\b", re.ASCII)
#: Words that models box instead of a symbol: "No real solutions", "No solution exists", "infinitely many".
_SYNONYMS = {
    r"(?:there (?:is|are) )?no (?:real )?solutions?(?: exists?)?": r"\emptyset",
    r"dne|(?:limit )?does not exist": "does not exist",
    r"all real numbers": r"\mathbb{R}",
    r"(?:there are )?infinitely many(?: solutions)?": r"\infty",
}


def normalise(text: str) -> str:
    """Canonical form of an extracted answer of bounded length. It is LaTeX that a parser can read, and may be empty."""
    if match := _PLAIN_NUMBER.fullmatch(text):  # most answers of GSM8K: none of the rules below applies
        return match[1] + (match[2] or "")
    text = unwrapped(without_unit(spelled(text))).strip(" .,;:")
    symbols = (symbol for words, symbol in _SYNONYMS.items() if re.fullmatch(words, text, re.IGNORECASE))
    return _choice(text) or next(symbols, None) or without_unit(text)


def _choice(text: str) -> str | None:
    """Letter of a choice that stands alone or with its text; None for anything else, such as two choices."""
    match = _CHOICE.fullmatch(text)
    if match is None:
        return None
    bracketed, named, stopped, content, enclosed, other = match.groups()
    rest = content or other or ""
    return None if _OTHER_CHOICE.search(rest) else bracketed or named or stopped or enclosed


def comparison_key(normalised: str) -> str:
    """Key that only equal answers share: the answer without spaces, and without braces around a character after _ or ^.

    A space between two digits stays, because ``1 1/2`` is not ``11/2``. The case of letters counts (AB is not ab), the
    case of words does not.
    """
    key = re.sub(r" (?!\d)|(?<!\d) ", "", normalised)
    key = re.sub(r"([_^])\{(\w)\}", r"\1\2", key)
    one_word = key.isalpha() and len(key) > 1 and key[1:].islower()
    if is_prose(normalised):
        return key.casefold().removesuffix("s" if " " in normalised else "")  # no solution, no solutions
    return key.casefold() if one_word else key


def is_prose(normalised: str) -> bool:
    """Whether an answer has words that are no LaTeX command. To a parser "thing" and "night" are equal products."""
    return _WORD.search(_NO_WORDS.sub("|", normalised)) is not None
