"""Figures of training: rewards and lengths, the training signal, and the weights of combination methods.

`figures.__main__` calls the functions that have the name of a figure in `figures.catalogue`, with its tables.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Any

import pandas as pd
import pyarrow.compute as pc
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reward_ablation.analysis.reading import read_parquet, read_rows
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.curves import (
    TITLE_WIDTH,
    add_arm_legend,
    curve_panels,
    draw_steps,
    points_note,
    seeds_note,
    step_axis,
    steps_per_point,
)
from reward_ablation.figures.few_arms import reduced_to_shown_arms
from reward_ablation.figures.findings import MOST_NAMES, rises
from reward_ablation.figures.style import (
    BASE_COLOUR,
    beside,
    figure_width,
    legend_below,
    looks_of,
    page_of_words,
    panel_grid,
    title,
    wrapped,
    zero_line,
)

#: Most points of a curve of signals. A step has few groups, so neighbouring steps are averaged.
SIGNAL_POINTS = 40

#: Weights of methods: most points of a curve, and most panels of the figure.
WEIGHT_POINTS, MOST_PANELS = 60, 24

#: Signals that the figure draws.
SIGNALS = ["no_signal", "tokens_correct", "tokens_wrong", "advantage_share", "covariance"]

#: Quantities of length, with their titles. A component may be named `length`, too.
LENGTHS = {"tokens": "completion length", "truncated": "cut off by the limit"}

#: How figures read tables that have millions of rows in a large study.
READERS = {
    "rewards_by_step": partial(
        read_parquet, columns=["arm", "seed", "step", "quantity", "mean"], coded=["arm", "quantity"]
    ),
    "signals_by_step": partial(
        read_rows,
        columns=["arm", "seed", "step", "quantity", "component", "value"],
        where=pc.field("quantity").isin(SIGNALS),
        coded=["arm", "quantity", "component"],
    ),
}


def rewards(rewards_by_step: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each component, the total and the length of completions the mean over the rollouts of a step, by arm."""
    same_runs, study = study.same_runs, reduced_to_shown_arms(study, evaluation_by_arm)
    known = set(rewards_by_step.loc[rewards_by_step["mean"].notna(), "quantity"])
    of_all = {"total": "weighted sum", "tokens": "tokens", "truncated": "share"}
    of_all = {name: label for name, label in of_all.items() if name in known}  # imported runs may lack some
    quantities = [*study.components, *of_all]
    labels = [*["raw score"] * len(study.components), *of_all.values()]
    titles = [LENGTHS.get(quantity, quantity) for quantity in quantities]
    figure, rows = curve_panels(study, titles, labels, height=1.9)
    for row, quantity in zip(rows, quantities, strict=True):
        table = rewards_by_step[rewards_by_step["quantity"] == quantity]
        draw_steps(row, table, "mean", study, rewards_by_step["step"])
    # Without any truncation, the axis still needs a height.
    highest = rewards_by_step.loc[rewards_by_step["quantity"] == "truncated", "mean"].max()
    for panel, _ in rows[-1] if quantities[-1] == "truncated" else []:
        panel.set_ylim(0, min(1.02, max(0.05, 1.1 * highest)))
    note = (
        f"{seeds_note(study, rewards_by_step, 'mean')} Raw scores are before weighting. The total uses each arm's own "
        "weights, so its level cannot be compared between arms."
    )
    if study.arms_off_the_total:
        note += f" Arms that are not trained on the total: {', '.join(study.arms_off_the_total)}."
    add_arm_legend(figure, study, note)
    title(figure, rises(rewards_by_step, [*study.components[: MOST_NAMES - 1], "tokens"], same_runs))
    return figure


def signals(signals_by_step: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw over steps the groups with zero advantage, lengths by correctness, and each component's signals."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    panels = shown_signals(signals_by_step, study)
    steps = signals_by_step["step"]
    figure, rows = curve_panels(study, [panel[2] for panel in panels], [panel[3] for panel in panels], height=1.9)
    of_all = signals_by_step["component"].isna()
    for row, (quantity, component, *_) in zip(rows, panels, strict=True):
        of_panel = of_all if component is None else signals_by_step["component"] == component
        table = signals_by_step[(signals_by_step["quantity"] == quantity) & of_panel]
        draw_steps(row, table, "value", study, steps, SIGNAL_POINTS)
        for panel, _ in row:
            if quantity in ("no_signal", "advantage_share"):
                panel.set_ylim(-0.03, 1.03)
            if quantity == "covariance":
                zero_line(panel)
    lines = seeds_note(study, signals_by_step, "value", SIGNAL_POINTS, of_means=True)
    note = (
        f"{lines} Covariance: of a component's score with the weighted total within "
        "groups. Above 0, training raises the component to first order. Its scale depends on the arm's weights."
    )
    if study.arms_off_the_total:
        note += (
            " Arms without a covariance with the total, because they are not trained on it: "
            f"{', '.join(study.arms_off_the_total)}."
        )
    add_arm_legend(figure, study, note)
    return figure


def shown_signals(signals_by_step: pd.DataFrame, study: StudyFile) -> list[tuple[str, str | None, str, str]]:
    """Quantity, component, title and y label of each panel; lengths only where one component says what is right."""
    panels: list[tuple[str, str | None, str, str]] = [
        ("no_signal", None, "groups with zero advantage", "share of groups")
    ]
    known = signals_by_step[signals_by_step["value"].notna()]
    scored = signals_by_step.loc[signals_by_step["quantity"] == "tokens_correct", "component"]
    if {"tokens_correct", "tokens_wrong"} & set(known["quantity"]):
        panels += [
            ("tokens_correct", scored.iloc[0], "length of right completions", "tokens"),
            ("tokens_wrong", scored.iloc[0], "length of wrong completions", "tokens"),
        ]
    if "advantage_share" in set(known["quantity"]):
        panels += [("advantage_share", name, f"{name}: share of the advantage", "share") for name in study.components]
    panels += [("covariance", name, f"{name}: covariance with the total", "covariance") for name in study.components]
    return panels


def method_weights(method_weights: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each arm with a method the weights of the components over steps, then the shares in conflict."""
    table = method_weights[method_weights["step"].notna()]
    known = {
        (arm, quantity)
        for arm, rows in table.groupby("arm", observed=True)
        for quantity in ("weight", "conflicts")
        if rows[quantity].notna().any()
    }
    panels = [(arm, what) for what in ("weight", "conflicts") for arm in study.arm_names if (arm, what) in known]
    if not panels:
        return page_of_words("no arm has a method of combination that reports weights")
    shown, columns = panels[:MOST_PANELS], beside(min(len(panels), 3))
    figure = Figure(figsize=(figure_width(), ceil(len(shown) / columns) * 1.9 + 0.4))
    looks: dict[str, dict[str, Any]] = {
        name: {"color": look.colour, "linestyle": look.dashes, "marker": look.marker}
        for name, look in looks_of(study.components).items()
    }
    for axes, (arm, quantity) in zip(panel_grid(figure, len(shown), columns), shown, strict=True):
        of_arm = table[table["arm"] == arm]
        axes.set_title(wrapped(arm if quantity == "weight" else f"{arm}: conflicts", TITLE_WIDTH), loc="left")
        step_axis(axes, table["step"].astype(int))
        if quantity == "weight":
            axes.set_ylabel("weight")
            for name in study.components:
                rows = of_arm[of_arm["component"] == name]
                if len(rows):
                    draw_mean_curve(axes, rows, quantity, table["step"], looks[name])
        else:
            axes.set_ylabel("share in conflict")
            axes.set_ylim(-0.03, 1.03)
            first = of_arm[of_arm["component"] == of_arm["component"].iloc[0]]
            draw_mean_curve(axes, first, quantity, table["step"], {"color": BASE_COLOUR, "marker": "o"})
    handles: list[Artist] = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    legend_below(figure, handles, weights_note(table, panels))
    return figure


def draw_mean_curve(axes: Axes, rows: pd.DataFrame, quantity: str, steps: pd.Series, look: dict[str, Any]) -> None:
    """Draw a line. With more than `WEIGHT_POINTS` steps, neighbouring steps are averaged."""
    width = steps_per_point(steps, WEIGHT_POINTS)
    ordered = rows.sort_values("step").reset_index(drop=True)
    curve = ordered[["step", quantity]].astype(float).groupby(ordered.index // width).mean()
    axes.plot(curve["step"], curve[quantity], markevery=max(1, len(curve) // 8), **look)


def weights_note(table: pd.DataFrame, panels: list[tuple[str, str]]) -> str:
    """Say what the weights of methods are, and which arms and panels are left out."""
    silent = [name for name in table["arm"].unique() if (name, "weight") not in panels]
    words = [
        "Lines: means over the seeds; the table has the lowest and the highest seed."
        + points_note(table["step"], WEIGHT_POINTS, of_means=True),
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
