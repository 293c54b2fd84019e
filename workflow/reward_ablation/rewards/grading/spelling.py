r"""LaTeX in one spelling.

Dollar signs, ``\left`` and ``\right``, spacing, style and colour commands, Markdown stars and a trailing stop are
removed. ``\dfrac`` and ``\frac12`` become ``\frac{1}{2}``, ``\sqrt3`` becomes ``\sqrt{3}``; ``√3``, ``x²``,
``2sqrt(3)``, ``3*x**2``, ``pi`` become LaTeX, and ``½`` becomes ``1/2``. Words before an answer ("The answer is") are
removed; `units` removes words after it. Callers bound the length of the text first (`grader.is_malformed`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby

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
    r"(?<=\d) ?(?:[元个個人名只本张支颗台件块斤克米度天年月日岁次页]|小时|分钟|千克|公斤|厘米|千米|公里|円|원|개)$"
)

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
    (r"\$(\d+) and (?=\d)", r"\1 dollars and "),
    (r"(?:\bUS)?\\?\$|^Rs\.? ?(?=\d)|(?<!\\)\\[()\[\]]|\\(?:bf|it|rm|em)(?![a-zA-Z ]*\{)(?![a-zA-Z])", ""),
    (r"^\]([^][]+,[^][]+)\[$", r"(\1)"),
    (r"\\([a-zA-Z]+)", lambda command: _COMMANDS.get(command[1], command[0])),
    (r"(?<![\d)])!=|<>", r"\\ne "),
    (r"^\\\{ ?\\\}$", r"\\emptyset"),
    (r"(?<=[^{]) ?\\\} ?\\cup ?\\\{ ?(?!\\)", ", "),
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
    (r"\(([0-9A-F]+)\) ?_", r"\1_"),
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
