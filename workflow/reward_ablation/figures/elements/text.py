"""Text of models in figures: what the font has, in lines of a fixed width."""

from __future__ import annotations

import textwrap
import unicodedata
from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font

from reward_ablation.figures.elements.style import STYLE

MONOSPACED = "DejaVu Sans Mono"

#: What stands for a character that cannot be drawn, and for the end of a line within a text.
NO_GLYPH, LINE_END = "\u25a1", "\u21b5 "


@cache
def _glyphs(family: str) -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=family))).get_charmap())


def drawable(text: str, family: str = STYLE["font.family"]) -> str:
    """The text with a box for each character that the font lacks, or that is drawn onto its neighbour."""
    glyphs = _glyphs(family)
    composed = unicodedata.normalize("NFC", text)
    return "".join(
        each if ord(each) in glyphs and unicodedata.category(each) not in ("Mn", "Me") else NO_GLYPH
        for each in composed
    )


def block(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters; line ends of the text are marks, and words that are too long are broken.

    Parameters
    ----------
    text : str
        Of printable characters.
    """
    one = LINE_END.join(line.rstrip() for line in text.strip("\n").split("\n"))
    return textwrap.wrap(drawable(one, MONOSPACED), width) or ["(nothing)"]
