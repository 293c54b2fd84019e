"""Forest plots: effects with their intervals from top to bottom, around a line at zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import NAME_WIDTH
from reward_ablation.figures.elements.style import WIDTH, Look, wrapped

#: Metrics that get a panel each, with the axes' names.
METRICS = {"accuracy_strict": "strict accuracy", "format": "format adherence", "tokens": "completion tokens"}

#: What is drawn of an effect.
NUMBERS = ["estimate", "low", "high", "p_holm", "smallest_effect"]

#: Colour of the range in which a study cannot see an effect.
UNSEEN_COLOUR = "#ececec"


class Row(NamedTuple):
    """A row of a forest plot; without a look it is a heading."""

    label: str
    look: Look | None = None
    key: str = ""


def kinds_of(table: pd.DataFrame, study: StudyFile) -> list[tuple[str, str]]:
    """Every data set and mode that has rows, in the study's order."""
    present = set(zip(table["dataset"], table["mode"], strict=True))
    return [
        (dataset, mode) for dataset in study.datasets for mode in ("greedy", "sampled") if (dataset, mode) in present
    ]


def forest_panels(table: pd.DataFrame, study: StudyFile, rows: Sequence[Row], height: float, label: str) -> Figure:
    """Make a figure with a row of panels per data set and mode, and in it a panel per metric.

    Parameters
    ----------
    table : DataFrame
        dataset, mode, metric, key, questions, and what `forest` draws.
    height : float
        Inches of a row.
    label : str
        What stands before a metric's name below its panel.
    """
    kinds = kinds_of(table, study)
    figure = Figure(figsize=(WIDTH, len(kinds) * (height * len(rows) + 0.75) + 0.4))
    grid = figure.subplots(len(kinds), len(METRICS), squeeze=False, sharey="row", sharex="col")
    for panel, metric in zip(grid[0], METRICS, strict=True):
        panel.set_xlim(limits(table[table["metric"] == metric]))
    for panels, (dataset, mode) in zip(grid, kinds, strict=True):
        of_kind = table[(table["dataset"] == dataset) & (table["mode"] == mode)]
        for panel, (metric, name) in zip(panels, METRICS.items(), strict=True):
            forest(panel, rows, of_kind[of_kind["metric"] == metric].set_index("key"), study.confidence)
            panel.set_xlabel(f"{label}\n{name}")
            panel.tick_params(axis="x", labelbottom=True)
            panel.tick_params(axis="y", length=0)
        name_forest(panels[0], rows)
        panels[0].set_title(f"{dataset}, {mode}: {int(of_kind['questions'].max()):,} questions", loc="left")
    return figure


def limits(effects: pd.DataFrame) -> tuple[float, float]:
    """Ends of an axis for all intervals and zero; a wide band that says what cannot be seen may run out of it."""
    ends = np.append(effects[["estimate", "low", "high"]].to_numpy(float), 0.0)
    low, high = np.nanmin(ends), np.nanmax(ends)
    room = 0.06 * (high - low) or 0.1
    return float(low - room), float(high + room)


def forest(axes: Axes, rows: Sequence[Row], effects: pd.DataFrame, confidence: float) -> None:
    """Draw the effects, one a row: filled where significant after Holm's correction, behind them what cannot be seen.

    Parameters
    ----------
    rows : sequence of Row
        From top to bottom.
    effects : DataFrame
        estimate, low, high, p_holm and smallest_effect by the rows' keys. A row without an estimate stays empty and
        says so.
    confidence : float
        1 − the level below which a corrected p counts as significant.
    """
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    numbers = dict(zip(effects.index, effects[NUMBERS].to_numpy(float), strict=True))
    for place, row in enumerate(rows):
        if row.look is None:
            continue
        effect = numbers.get(row.key)
        if effect is None or np.isnan(effect[0]):
            axes.annotate(
                "no estimate", (0, place), (4, 0), textcoords="offset points", va="center", fontsize=6, color="#808080"
            )
        else:
            draw_effect(axes, place, effect, row.look, confidence)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def level(confidence: float) -> float:
    """Level of a test; 1 − 0.95 is a little more than 0.05 to a computer."""
    return round(1 - confidence, 9)


def draw_effect(axes: Axes, place: float, effect: np.ndarray, look: Look, confidence: float) -> None:
    """Draw one effect, the `NUMBERS` of it, in its row."""
    estimate, low, high, p, unseen = effect
    if np.isfinite(unseen):
        axes.barh(place, 2 * unseen, left=-unseen, height=0.82, color=UNSEEN_COLOUR, linewidth=0, zorder=0.5)
    ends = None if np.isnan([low, high]).any() else [[max(0.0, estimate - low)], [max(0.0, high - estimate)]]
    axes.errorbar(
        estimate,
        place,
        xerr=ends,
        color=look.colour,
        marker=look.marker,
        markerfacecolor=look.colour if p < level(confidence) else "white",
        markersize=4.5,
        capsize=1.5,
        elinewidth=1.1,
    )


def name_forest(axes: Axes, rows: Sequence[Row]) -> None:
    """Write the names of rows beside them, headings in bold."""
    axes.set_yticks(range(len(rows)), [wrapped(row.label, NAME_WIDTH) for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row.look is None else "normal")


def forest_handles(confidence: float) -> list[Artist]:
    """Legend entries of a forest plot."""
    black: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 4.5, "linestyle": "none"}
    return [
        Line2D([], [], **black, label=f"filled: Holm p < {level(confidence):g}"),
        Line2D([], [], **black, markerfacecolor="white", label="hollow: not significant, or no test"),
        Patch(facecolor=UNSEEN_COLOUR, label="too small for this study to detect"),
    ]


def forest_note(study: StudyFile) -> str:
    """Say what points and bars are."""
    seeds = len(study.seeds)
    bars = f"Bars: {100 * study.confidence:g} % intervals"
    if seeds == 1:
        return f"Points: the one seed. {bars} over questions only; nothing is known of other seeds."
    return f"Points: mean over {seeds} seeds and all questions. {bars} over seeds and questions, uncorrected."
