"""Forest plots: effects with intervals, one per row, beside a line at zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels as metric_panels
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.estimates import (
    POINT,
    datasets_and_modes,
    dot_handles,
    draw_flag,
    flag_note,
    interval_note,
    name_rows,
    row_height,
)
from reward_ablation.figures.few_arms import draw_others_in_row, others_note
from reward_ablation.figures.style import WIDTH, Look, draw_points, legend_below, round_ticks, zero_line

#: Longest interval that an axis makes room for, in lengths of the usual interval. Longer ones end in an arrow.
MOST_LENGTHS = 10

#: What the arrows mean.
ARROWS = " Arrows: the interval goes on."

#: Columns of an effect that are drawn.
NUMBERS = ["estimate", "low", "high"]


class Row(NamedTuple):
    """A row of a forest plot.

    A row with a look is one effect. A row without a look is a heading, or the distribution of the effects in `others`.
    """

    label: str
    look: Look | None = None
    key: str = ""
    """Key of the row's effect."""
    others: tuple[str, ...] = ()
    """Keys of the effects whose distribution the row shows."""


def forest_panels(
    table: pd.DataFrame,
    study: StudyFile,
    rows: Sequence[Row],
    label: str,
    family: str,
    before: str = "",
    primary: tuple[str, str, str] | None = None,
) -> Figure:
    """Make a figure with a row of panels per data set and mode, and a column of panels per metric.

    `table` has the columns dataset, mode, metric, key, questions, flagged_arms, p_holm and the `NUMBERS` of each.
    `rows` are those of each panel, from top to bottom. `label` precedes the metric's name in the label of an x axis,
    such as `effect on`. `family` says in words which tests Holm's correction is over, and `before` begins the legend's
    note. `primary` has the data set, mode and metric of the primary question, whose panel is named primary.
    """
    names = [row.label for row in rows]
    of_kinds = datasets_and_modes(table, study)
    figure = Figure(figsize=(WIDTH, len(of_kinds) * (row_height(names) * len(rows) + 0.75) + 0.4))
    metrics = metric_panels(study)
    grid = figure.subplots(len(of_kinds), len(metrics), squeeze=False, sharey="row", sharex="col")
    level = level_of(study.confidence)
    for panels, (dataset, mode, questions) in zip(grid, of_kinds, strict=True):
        of_kind = table[(table["dataset"] == dataset) & (table["mode"] == mode)]
        for panel, (metric, name) in zip(panels, metrics.items(), strict=True):
            panel.set_xlim(limits(table[table["metric"] == metric]))
            effects = of_kind[of_kind["metric"] == metric].set_index("key")
            forest(panel, rows, effects, effects["p_holm"] < level)
            panel.set_xlabel(f"{label}\n{name}" + (" (primary)" if primary == (dataset, mode, metric) else ""))
            panel.tick_params(axis="x", labelbottom=True)
            panel.tick_params(axis="y", length=0)
        name_forest(panels[0], rows)
        panels[0].set_title(f"{dataset}, {mode}: {questions:,} questions", loc="left")
    forest_legend(figure, table, study, family, before)
    return figure


def name_forest(axes: Axes, rows: Sequence[Row]) -> None:
    """Write the labels beside the rows, headings in bold."""
    name_rows(axes, [row.label for row in rows])
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if row.look is None and not row.others else "normal")


def forest_legend(
    figure: Figure, table: pd.DataFrame, study: StudyFile, family: str, before: str = "", after: str = ""
) -> None:
    """Put below a forest plot what points, bars and marks mean. `after` follows the words on points and bars."""
    handles = dot_handles(f"Holm p < {level_of(study.confidence):g}", "not significant, or no test")
    points = interval_note(study, of_all=" and all questions", detail=", uncorrected")
    marks = arrow_note(figure) + flag_note(table) + others_note(study)
    legend_below(figure, handles, f"{before}{points}{after} Holm's correction: over {family}.{marks}")


def arrow_note(figure: Figure) -> str:
    """Say what the arrows of a forest plot mean; empty where there is none."""
    return ARROWS * any(line.get_marker() in ("<", ">") for panel in figure.axes for line in panel.get_lines())


def limits(effects: pd.DataFrame) -> tuple[float, float]:
    """Ends of an axis that shows zero, all estimates, and all intervals but those much longer than the others."""
    estimates, *intervals = effects[["estimate", "low", "high"]].to_numpy(float).T
    length = intervals[1] - intervals[0]
    usual = np.nanmedian(length) if np.isfinite(length).any() else 0.0
    shown = ~(length > MOST_LENGTHS * usual)
    ends = np.concatenate([estimates, intervals[0][shown], intervals[1][shown], [0.0]])
    low, high = np.nanmin(ends), np.nanmax(ends)
    room = 0.06 * (high - low) or 0.1
    return float(low - room), float(high + room)


def forest(axes: Axes, rows: Sequence[Row], effects: pd.DataFrame, filled: pd.Series) -> None:
    """Draw one effect per row, with a filled point where `filled` says so, and otherwise with a hollow one.

    The axis has its limits before. `effects` and `filled` are indexed by the rows' keys. A row without an estimate says
    so.
    """
    zero_line(axes, vertical=True)
    flagged = set(effects.index[effects["flagged_arms"].notna()])
    numbers = dict(zip(effects.index, effects[NUMBERS].to_numpy(float), strict=True))
    for row_number, row in enumerate(rows):
        if row.others:
            draw_others_in_row(axes, effects["estimate"].reindex(row.others), row_number)
        if row.look is None:
            continue
        estimate, low, high = numbers.get(row.key, [np.nan] * len(NUMBERS))
        if np.isnan(estimate):
            beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 7, "color": "#808080"}
            axes.annotate("no estimate", (0, row_number), (4, 0), **beside)
            continue
        ends = None if np.isnan([low, high]).any() else tuple(np.clip((low, high), *axes.get_xlim()))
        for end, inside, arrow in zip((low, high), ends or (), "<>", strict=False):
            if end != inside:  # the interval goes on beyond the axis
                axes.plot(inside, row_number, arrow, color=row.look.colour, markersize=4, clip_on=False)
        draw_points(axes, row.look, estimate, row_number, across=ends, hollow=not filled[row.key], **POINT)
        if row.key in flagged:
            draw_flag(axes, estimate, row_number)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    round_ticks(axes.xaxis, 5)
