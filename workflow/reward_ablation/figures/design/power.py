"""Figure: interval length and power of the primary contrasts by number of seeds."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.design.power import TARGET, Design
from reward_ablation.figures.elements.style import STYLE, WIDTH, legend_below, looks, round_ticks, title, wrapped

#: Contrasts that are drawn: those with the longest intervals.
MOST = 6

#: Contrasts up to which bands are drawn; more would hide each other.
WITH_BANDS = 3

#: Looks of the ranges and of the reference lines.
BAND: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}
REFERENCE: dict[str, Any] = {"color": "#606060", "linestyle": "dotted", "linewidth": 0.9, "zorder": 0.6}


@rc_context(STYLE)
def power(table: pd.DataFrame, own: Design, study: StudyFile) -> Figure:
    """Interval length by seeds, with twice the questions hollow, and the power of each effect.

    Parameters
    ----------
    table : DataFrame
        Of `design.power.Plan.table`.
    own : Design
        The study's own size, which a dotted line marks.
    study : StudyFile
        For the looks of its arms.
    """
    effects = list(dict.fromkeys(table["effect"]))
    longest = table[table["seeds"] == own.seeds].groupby(["arm", "against"], sort=False)["length"].max()
    pairs = list(longest.sort_values(ascending=False, kind="stable").index[:MOST])
    pairs = [pair for pair in longest.index if pair in pairs]
    figure = Figure(figsize=(WIDTH, 2.6))
    first, *others = figure.subplots(1, 1 + len(effects))
    look = looks(study)
    for pair in pairs:
        of_pair = table[(table["arm"] == pair[0]) & (table["against"] == pair[1])]
        here = of_pair[(of_pair["questions"] == own.questions) & (of_pair["samples"] == own.samples)]
        once = here[here["effect"] == effects[0]]
        twice = of_pair[(of_pair["questions"] == 2 * own.questions) & (of_pair["effect"] == effects[0])]
        _curve(first, look[pair[0]], once, "length", len(pairs) <= WITH_BANDS)
        style = {"color": look[pair[0]].colour, "marker": look[pair[0]].marker, "markerfacecolor": "white"}
        first.plot(twice["seeds"], twice["length"], linestyle="none", **style)
        for axes, effect in zip(others, effects, strict=True):
            _curve(axes, look[pair[0]], here[here["effect"] == effect], "power", len(pairs) <= WITH_BANDS)
    _labels(first, "length of the interval", "Interval length", own, table)
    first.set_ylim(bottom=0)
    for axes, effect in zip(others, effects, strict=True):
        _labels(axes, "power", f"Power for an effect of {effect:g}", own, table)
        axes.set_ylim(-0.03, 1.03)
        axes.axhline(TARGET, **REFERENCE)
    title(figure, f"What the study {wrapped(study.name, 60)} would show")
    _legend(figure, pairs, study, len(longest))
    return figure


def _curve(axes: Axes, look: Any, rows: pd.DataFrame, name: str, band: bool) -> None:
    """Draw a quantity by seeds, with its range."""
    axes.plot(rows["seeds"], rows[name], color=look.colour, linestyle=look.dashes, marker=look.marker)
    if band:
        axes.fill_between(rows["seeds"], rows[f"{name}_low"], rows[f"{name}_high"], color=look.colour, **BAND)


def _labels(axes: Axes, quantity: str, heading: str, own: Design, table: pd.DataFrame) -> None:
    axes.set_title(heading, loc="left")
    axes.set_xlabel("seeds of each arm")
    axes.set_ylabel(quantity)
    axes.axvline(own.seeds, **REFERENCE)
    axes.set_xlim(table["seeds"].min() - 0.3, table["seeds"].max() + 0.3)
    round_ticks(axes.xaxis, 6, integer=True)


def _legend(figure: Figure, pairs: list[tuple[str, str]], study: StudyFile, contrasts: int) -> None:
    look = looks(study)
    handles: list[Artist] = [
        Line2D(
            *([], []), color=look[one].colour, linestyle=look[one].dashes, marker=look[one].marker,
            label=f"{one} against {other}",
        )
        for one, other in pairs
    ]  # fmt: skip
    black: dict[str, Any] = {"color": "black", "marker": "o", "markerfacecolor": "white", "linestyle": "none"}
    handles.append(Line2D([], [], **black, label="hollow: twice the questions"))
    if len(pairs) <= WITH_BANDS:
        handles.append(Patch(color="#808080", **BAND, label="range by the variance between seeds"))
    note = "Dotted: the study's own seeds, and a power of 80 %. An effect is on one arm; all other arms are alike."
    if contrasts > len(pairs):
        note += f" {len(pairs)} of {contrasts} contrasts: those with the longest intervals."
    legend_below(figure, handles, note)
