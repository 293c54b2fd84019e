"""Figure: expected interval length and power of the primary contrasts, by number of seeds.

The command `reward-ablation power` (`start.power`) draws it from its table. It is not in the catalogue of figures.
"""

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
from reward_ablation.figures.style import STYLE, WIDTH, arm_looks, legend_below, round_ticks, title, wrapped

#: Most contrasts that are drawn: those with the longest intervals.
MOST = 6

#: Most contrasts that are drawn with bands: more bands would hide each other.
WITH_BANDS = 3

#: Styles of the bands and of the reference lines.
BAND: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}
REFERENCE: dict[str, Any] = {"color": "#606060", "linestyle": "dotted", "linewidth": 0.9, "zorder": 0.6}


@rc_context(STYLE)
def power(table: pd.DataFrame, own: Design, study: StudyFile) -> Figure:
    """Draw interval length and, for each effect, power against seeds; hollow: twice the questions; dotted: `own`."""
    effects = list(dict.fromkeys(table["effect"]))
    longest = table[table["seeds"] == own.seeds].groupby(["arm", "against"], sort=False)["length"].max()
    pairs = list(longest.sort_values(ascending=False, kind="stable").index[:MOST])
    pairs = [pair for pair in longest.index if pair in pairs]
    figure = Figure(figsize=(WIDTH, 2.6))
    length_panel, *power_panels = figure.subplots(1, 1 + len(effects))
    look = arm_looks(study)
    for pair in pairs:
        of_pair = table[(table["arm"] == pair[0]) & (table["against"] == pair[1])]
        own_size = of_pair[(of_pair["questions"] == own.questions) & (of_pair["samples"] == own.samples)]
        lengths = own_size[own_size["effect"] == effects[0]]
        twice = of_pair[(of_pair["questions"] == 2 * own.questions) & (of_pair["effect"] == effects[0])]
        _curve(length_panel, look[pair[0]], lengths, "length", len(pairs) <= WITH_BANDS)
        style = {"color": look[pair[0]].colour, "marker": look[pair[0]].marker, "markerfacecolor": "white"}
        length_panel.plot(twice["seeds"], twice["length"], linestyle="none", **style)
        for axes, effect in zip(power_panels, effects, strict=True):
            _curve(axes, look[pair[0]], own_size[own_size["effect"] == effect], "power", len(pairs) <= WITH_BANDS)
    _labels(length_panel, "length of the interval", "Interval length", own, table)
    length_panel.set_ylim(bottom=0)
    for axes, effect in zip(power_panels, effects, strict=True):
        _labels(axes, "power", f"Power for an effect of {effect:g}", own, table)
        axes.set_ylim(-0.03, 1.03)
        axes.axhline(TARGET, **REFERENCE)
    title(figure, f"What the study {wrapped(study.name, 60)} would show")
    _legend(figure, pairs, study, len(longest))
    return figure


def _curve(axes: Axes, look: Any, rows: pd.DataFrame, name: str, band: bool) -> None:
    """Draw the column `name` against seeds, with its range as a band if `band`."""
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
    handles: list[Artist] = []
    for arm, against in pairs:
        colour, dashes, marker = arm_looks(study)[arm]
        label = f"{arm} against {against}"
        handles.append(Line2D([], [], color=colour, linestyle=dashes, marker=marker, label=label))
    black: dict[str, Any] = {"color": "black", "marker": "o", "markerfacecolor": "white", "linestyle": "none"}
    handles.append(Line2D([], [], **black, label="hollow: twice the questions"))
    if len(pairs) <= WITH_BANDS:
        handles.append(Patch(color="#808080", **BAND, label="80 % range (uncertain variance between seeds)"))
    note = (
        "Dotted: the fewest seeds of a compared arm, at least 2, and a power of 80 %. One arm has the effect, the "
        "others none."
    )
    if contrasts > len(pairs):
        note += f" Shown: the {len(pairs)} of {contrasts} contrasts with the longest intervals."
    legend_below(figure, handles, note)
