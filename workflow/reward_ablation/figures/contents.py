"""The second page of all figures: what is on which page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reward_ablation.figures.elements.style import STYLE, WIDTH, title

#: Inches of a line, of the room above the first, and of the margins at the sides.
LINE, ABOVE, MARGIN = 0.22, 0.5, 0.15


class Line(NamedTuple):
    """A line of the contents; a heading has no page."""

    words: str
    page: int | None = None


class Box(NamedTuple):
    """A rectangle on a page, in points from its lower left."""

    left: float
    bottom: float
    right: float
    top: float


@rc_context(STYLE)
def contents(lines: Sequence[Line]) -> tuple[Figure, list[Box]]:
    """Draw the contents.

    Returns
    -------
    The page, and the box of each line on it, for links.
    """
    height = ABOVE + LINE * (len(lines) + 0.5)
    figure = Figure(figsize=(WIDTH, height))
    title(figure, "Figures")
    boxes = []
    for place, line in enumerate(lines):
        bottom = height - ABOVE - LINE * (place + 1)
        boxes.append(Box(*(72 * inches for inches in (MARGIN, bottom, WIDTH - MARGIN, bottom + LINE))))
        middle = (bottom + LINE / 2) / height
        if line.page is None:
            figure.text(MARGIN / WIDTH, middle, line.words, va="center", weight="bold")
            continue
        figure.text(2 * MARGIN / WIDTH, middle, line.words, va="center")
        figure.text(1 - MARGIN / WIDTH, middle, str(line.page), va="center", ha="right")
        ends = [2 * MARGIN / WIDTH, 1 - MARGIN / WIDTH]
        figure.add_artist(Line2D(ends, [bottom / height] * 2, color="#e4e4e4", linewidth=0.5))
    return figure, boxes
