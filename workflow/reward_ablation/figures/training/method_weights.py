"""Figure: weights that methods of combination gave the components, and shares in conflict."""

from __future__ import annotations

from math import ceil
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import TITLE_WIDTH, step_axis, steps_per_point
from reward_ablation.figures.elements.style import (
    BASE_COLOUR,
    COLOURS,
    DASHES,
    MARKERS,
    WIDTH,
    legend_below,
    page_of_words,
    panel_grid,
    wrapped,
)

#: Most points of a curve, and most panels of the figure.
MOST_POINTS, MOST_PANELS = 60, 24


def component_look(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of the study's component with this number."""
    look = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
    return {**look, "marker": MARKERS[number % len(MARKERS)]}


def panels_of(table: pd.DataFrame, study: StudyFile) -> list[tuple[str, str]]:
    """Arm and quantity of each panel: first the weights of each arm, then the conflicts of each arm that has values."""
    arms = [name for name in study.arm_names if (table["arm"] == name).any()]
    known = {
        (arm, quantity)
        for arm in arms
        for quantity in ("weight", "conflicts")
        if table.loc[table["arm"] == arm, quantity].notna().any()
    }
    return [(arm, quantity) for quantity in ("weight", "conflicts") for arm in arms if (arm, quantity) in known]


def draw_curve(axes: Axes, rows: pd.DataFrame, quantity: str, steps: pd.Series, look: dict[str, Any]) -> None:
    """Draw a line. With more than `MOST_POINTS` steps, neighbouring steps are averaged."""
    width = steps_per_point(steps, MOST_POINTS)
    ordered = rows.sort_values("step").reset_index(drop=True)
    curve = ordered[["step", quantity]].astype(float).groupby(ordered.index // width).mean()
    axes.plot(curve["step"], curve[quantity], markevery=max(1, len(curve) // 8), **look)


def method_weights(method_weights: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each arm with a method the weights of the components over steps, then the shares in conflict."""
    table = method_weights[method_weights["step"].notna()]
    panels = panels_of(table, study)
    if not panels:
        return page_of_words("no arm has a method of combination that reports weights")
    shown, columns = panels[:MOST_PANELS], min(len(panels), 3)
    figure = Figure(figsize=(WIDTH, ceil(len(shown) / columns) * 1.9 + 0.4))
    looks = {name: component_look(number) for number, name in enumerate(study.components)}
    for axes, (arm, quantity) in zip(panel_grid(figure, len(shown), columns), shown, strict=True):
        of_arm = table[table["arm"] == arm]
        axes.set_title(wrapped(arm if quantity == "weight" else f"{arm}: conflicts", TITLE_WIDTH), loc="left")
        step_axis(axes, table["step"].astype(int))
        if quantity == "weight":
            axes.set_ylabel("weight")
            for name in study.components:
                rows = of_arm[of_arm["component"] == name]
                if len(rows):
                    draw_curve(axes, rows, quantity, table["step"], looks[name])
        else:
            axes.set_ylabel("share in conflict")
            axes.set_ylim(-0.03, 1.03)
            first = of_arm[of_arm["component"] == of_arm["component"].iloc[0]]
            draw_curve(axes, first, quantity, table["step"], {"color": BASE_COLOUR, "marker": "o"})
    handles: list[Artist] = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    legend_below(figure, handles, note(table, study, panels))
    return figure


def note(table: pd.DataFrame, study: StudyFile, panels: list[tuple[str, str]]) -> str:
    """Say what is drawn, and which arms and panels are left out."""
    width = steps_per_point(table["step"], MOST_POINTS)
    silent = [name for name in table["arm"].unique() if (name, "weight") not in panels]
    words = [
        "Lines: means over the seeds; the table has the lowest and the highest seed.",
        *([f"Each point: mean over {width} neighbouring steps."] if width > 1 else []),
        "A weight is the factor that the method applies to scores, z-scores or gradients. So sizes can be compared "
        "within a panel only.",
    ]
    if any(quantity == "conflicts" for _, quantity in panels):
        words.append("Conflicts: share of completions, or of pairs of components, that the method counts.")
    if silent:
        words.append(f"Without weights: {', '.join(silent)}.")
    if len(panels) > MOST_PANELS:
        words.append(f"Shown: the first {MOST_PANELS} of {len(panels)} panels.")
    return " ".join(words)
