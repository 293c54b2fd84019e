"""Style that all figures share: fonts, widths, the look of each arm, legends, and how figures are saved.

All modules of figures but `catalogue`, `findings` and `few_arms` call it. `start.power` saves its figure with it, and
`watch` shows arms in the same colours.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context, rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.system.files import atomic_path

#: Width of a figure that spans both columns of a paper, and of one that fits a column, in inches.
WIDTH, ONE_COLUMN = 6.9, 3.3

#: Widths in a legend, in inches: a character of a wide name, a character of running text, the line beside a name.
NAME_CHARACTER, TEXT_CHARACTER, SAMPLE = 0.062, 0.053, 0.65

#: Height of a line of a legend, in inches.
LEGEND_LINE = 0.16

#: Most characters in an inch of running text and of a figure's title, and the height of a line of the title in inches.
CHARACTERS, TITLE_CHARACTERS, TITLE_LINE = 14, 10.5, 0.17

#: Settings of every figure. Font type 42 embeds fonts as TrueType, so that text stays text. The salt makes the names
#: inside the files the same each time.
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "figure.titlesize": 10,
    "figure.figsize": (WIDTH, 2.6),
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "text.parse_math": False,  # names of levels and models may have a $
    "pdf.fonttype": 42,
    "svg.hashsalt": "reward-ablation",
}

#: Okabe and Ito's colours, and Tol's wine. Yellow is left out because it is hard to see, and black because it looks
#: like text. Neighbouring colours also differ in grey. The numbers of colours, dashes and markers have no common
#: divisor, so that any two of 280 arms differ in at least one of them, and any two of the first five differ in all.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#882255", "#56B4E9", "#D55E00", "#CC79A7"]
DASHES = ["solid", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2, 3, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]

#: Replaces a character that cannot be drawn.
NO_GLYPH = "\u25a1"

#: Colour of the base model, which no arm has.
BASE_COLOUR = "#606060"


class Look(NamedTuple):
    """Colour, dashes and marker of an arm."""

    colour: str
    dashes: Any
    marker: str


def looks_of(names: list[str]) -> dict[str, Look]:
    """Looks of lines, in the order of their names."""
    return {
        name: Look(COLOURS[n % len(COLOURS)], DASHES[n % len(DASHES)], MARKERS[n % len(MARKERS)])
        for n, name in enumerate(names)
    }


def arm_looks(study: StudyFile) -> dict[str, Look]:
    """The look of each arm. Looks are assigned in the study's order, so each arm has the same look in all figures."""
    return looks_of(study.arm_names)


def wrapped(name: str, width: int) -> str:
    """Break a name into lines of at most `width` characters, after underscores and blanks if there are any."""
    if "\n" in name:
        return "\n".join(wrapped(line, width) for line in name.split("\n"))
    lines = [""]
    for part in re.findall(r"[^_ ]*[_ ]|[^_ ]+", name):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(piece for line in lines for piece in textwrap.wrap(line, width))


def filled(text: str, width: int) -> str:
    """Break a text into lines of at most `width` characters, within a longer word after an underscore."""
    words = (word if len(word) <= width else wrapped(word, width) for word in text.split(" "))
    return textwrap.fill(" ".join(words), width)


def joined(text: str) -> str:
    """The text that `filled` broke into lines."""
    return " ".join(text.replace("_\n", "_").split())


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(STYLE["font.family"])).get_charmap())


def replace_undrawable(text: str) -> str:
    """Replace each character that the font lacks, or that would be drawn onto its neighbour, by a box."""
    return "".join(
        character if ord(character) in _glyphs() and unicodedata.category(character) not in ("Mn", "Me") else NO_GLYPH
        for character in unicodedata.normalize("NFC", text)
    )


def with_escapes(text: str) -> str:
    """Write each character that the font lacks as its number, such as `\\u4e2d`, so that names stay distinct."""
    text = unicodedata.normalize("NFC", text)
    drawn = zip(text, replace_undrawable(text), strict=True)
    return "".join(old.encode("ascii", "backslashreplace").decode() if new == NO_GLYPH else old for old, new in drawn)


def draw_points(
    axes: Axes, look: Look, x: Any, y: Any, *, across: Any = None, along: Any = None, hollow: bool = False, **style: Any
) -> None:
    """Draw points in a look; `across` and `along` are the ends of their intervals in x and in y."""

    def lengths(value: Any, ends: Any) -> np.ndarray | None:
        # A mean may lie outside its percentile interval by a rounding error.
        return None if ends is None else np.maximum([np.atleast_1d(value - ends[0]), np.atleast_1d(ends[1] - value)], 0)

    face = "white" if hollow else look.colour
    bars: dict[str, Any] = {"xerr": lengths(x, across), "yerr": lengths(y, along)}
    axes.errorbar(x, y, **bars, color=look.colour, marker=look.marker, markerfacecolor=face, **style)


def zero_line(axes: Axes) -> None:
    """Draw a horizontal line at zero."""
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)


def round_ticks(axis: Axis, most: int, **settings: Any) -> None:
    """Put ticks at round numbers, with at most `most` intervals between the ticks."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], **settings))


def figure_width() -> float:
    """Width of the figure that is drawn, in inches: Matplotlib's own setting, from `STYLE` or for a column."""
    return float(rcParams["figure.figsize"][0])


def beside(most: int) -> int:
    """Number of panels side by side: `most`, and in a column of a paper one."""
    return most if figure_width() > ONE_COLUMN else 1


def rows_of_panels(
    rows: int, columns: int, height: float, above: float = 0.4, ratios: list[float] | None = None, **settings: Any
) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure of rows of panels, each `height` inches high; in a column of a paper one below the other."""
    across = beside(columns)
    down = rows * columns // across
    figure = Figure(figsize=(figure_width(), down * height + above))
    grid = figure.subplots(down, across, squeeze=False, width_ratios=ratios if across > 1 else None, **settings)
    return figure, grid.reshape(rows, columns).tolist()


def panel_grid(figure: Figure | SubFigure, panels: int, columns: int) -> list[Axes]:
    """Make `panels` panels row by row. The last row may have fewer than `columns`."""
    grid = list(figure.subplots(ceil(panels / columns), columns, squeeze=False).flat)
    for spare in grid[panels:]:
        spare.remove()
    return grid[:panels]


def title(figure: Figure, text: str, **style: Any) -> None:
    """Put the title at the upper left. It comes before all other text of the file."""
    figure.suptitle(text, x=0.012, ha="left", weight="bold", zorder=2.9, **style)


def arm_handles(study: StudyFile) -> list[Artist]:
    """Legend entries for the lines of all arms."""
    return [
        Line2D([], [], color=look.colour, linestyle=look.dashes, marker=look.marker, label=arm)
        for arm, look in arm_looks(study).items()
    ]


def legend_below(figure: Figure, handles: list[Artist], note: str, most_columns: int = 6) -> None:
    """Put a legend below the panels, headed by a note on what is drawn, and enlarge the figure to make room."""
    width = figure.get_figwidth()
    for handle in handles:
        handle.set_label(wrapped(str(handle.get_label()), int((width - 0.2 - SAMPLE) / NAME_CHARACTER)))
    names = [str(handle.get_label()).split("\n") for handle in handles]
    longest = max((len(line) for name in names for line in name), default=1)
    columns = max(1, min(len(handles), most_columns, int((width - 0.2) / (SAMPLE + NAME_CHARACTER * longest))))
    heading = filled(note, int((width - 0.3) / TEXT_CHARACTER))
    lines = ceil(sum(map(len, names)) / columns) + heading.count("\n") + 1
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * lines + 0.1)
    legend = figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=columns,
        title=heading,
        alignment="left",
        handlelength=4.2,
        columnspacing=1.2,
    )
    legend.get_title().set_color("#404040")


def take_caption(figure: Figure) -> str:
    """Take the title and the notes out of a figure for a paper, and return them as the text of its caption."""
    parts, heading = [], figure.get_suptitle()
    if heading:
        parts.append(f"{joined(heading)}.")
        figure.suptitle("")
        figure.set_figheight(figure.get_figheight() - TITLE_LINE * heading.count("\n"))
    for legend in figure.legends:
        note = legend.get_title().get_text()
        parts.append(joined(note))
        figure.set_figheight(figure.get_figheight() - LEGEND_LINE * (note.count("\n") + 1))
        legend.set_title("")
        if not legend.get_texts():
            legend.remove()
    return " ".join(filter(None, parts))


def page_of_words(words: str) -> Figure:
    """A page that replaces a figure without anything to show, and says why."""
    figure = Figure(figsize=(figure_width(), 1.6))
    words = filled(words, int(CHARACTERS * figure_width()))
    figure.text(0.5, 0.4, words, ha="center", va="center", color="#404040")
    return figure


@rc_context(STYLE)
def save_pdf(figure: Figure, path: Path, name: str) -> None:
    """Write a figure as PDF with embedded fonts and without a date, so that equal figures have equal bytes."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None, "Title": name})


@rc_context(STYLE)
def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=200)
