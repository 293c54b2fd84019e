"""Figure: predicted effect of the weights on each component, to first order, before training."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.tri import Triangulation

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.style import (
    BASE_COLOUR,
    COLOURS,
    DASHES,
    WIDTH,
    arm_looks,
    legend_below,
    page_of_words,
    panel_grid,
    wrapped,
    zero_line,
)
from reward_ablation.figures.elements.weights import MANY_POINTS, draw_triangle, positions
from reward_ablation.figures.gradients.similarity_steps import switched_off

#: Marker and legend entry by the sign of the observed change; 0 is a change whose sign is not known.
MARKS = {1: ("^", "rose in training"), -1: ("v", "fell in training"), 0: ("o", "no clear change")}


def why_no_map(study: StudyFile) -> str:
    """Say why a study has no map over the weights."""
    return switched_off(study) or (
        "the stored Gram matrices do not say what other weights would do: rewards are on some tokens only,\n"
        "rollouts are clipped, or no two prompts share a micro-batch"
    )


def over_words(interval: pd.Series) -> str:
    """Say what the intervals of a table are over, from its column `interval`."""
    kinds = set(interval.dropna())
    if not kinds:
        return "no interval: one seed with few steps"
    words = {"seeds": "Student's t over seeds", "steps": "block bootstrap over the steps of one seed"}
    return " or ".join(text for kind, text in words.items() if kind in kinds)


def directions(what_if_check: pd.DataFrame, component: str) -> dict[str, int]:
    """Sign of each arm's observed change of a component; 0 if the interval includes 0 or the change is not known."""
    rows = what_if_check[what_if_check["component"] == component].set_index("arm")
    clear = rows["observed_low"] * rows["observed_high"] > 0
    return np.sign(rows["observed"]).where(clear, 0).astype(int).to_dict()


def arm_weights(study: StudyFile, signs: np.ndarray) -> dict[str, np.ndarray]:
    """Shares of the weights of each arm that lies on the map.

    Such an arm has fixed weights on the map's components alone, and each weight is zero or has the sign that the map
    has for its component: `signs` are 1 or -1.
    """
    weights = {
        arm.name: np.array([arm.weights[name] for name in study.components]) * signs
        for arm in study.arms
        if arm.has_fixed_weights and not any(arm.weights[name] for name in arm.weights if name not in study.components)
    }
    return {arm: vector / vector.sum() for arm, vector in weights.items() if (vector >= 0).all() and vector.sum() > 0}


def draw_line(
    axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, arms: dict, observed: dict
) -> None:
    """Draw the effect on a component, with its interval, against the share of the second of two components.

    Arms are on the line, with the marker of their sign in `observed`.
    """
    x, effect = shares[:, 1], effects["effect"]
    axes.fill_between(x, effects["low"], effects["high"], color=COLOURS[0], alpha=0.2, linewidth=0)
    axes.plot(x, effect, color=COLOURS[0])
    look, size = arm_looks(study), 6 if len(arms) <= MANY_POINTS else 2
    for arm, vector in arms.items():
        height = np.interp(vector[1], x, effect)
        marker = MARKS[observed.get(arm, 0)][0]
        axes.plot(vector[1], height, marker, color=look[arm].colour, markersize=size, zorder=4)
    zero_line(axes)
    axes.set_xlabel(f"share of the weight on {wrapped(study.components[1], 24)}")


def edge_look(component: int) -> dict[str, Any]:
    """Colour and dashes of the edge from the component with this number."""
    return {"color": COLOURS[component % len(COLOURS)], "linestyle": DASHES[component % len(DASHES)]}


def draw_edges(axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, component: str) -> None:
    """Draw the effect on a component along the edges from each other component to it, with intervals."""
    own = study.components.index(component)
    values = effects[["effect", "low", "high"]].to_numpy(dtype=float)
    for number, other in enumerate(study.components):
        if number == own:
            continue
        edge = np.flatnonzero(np.isclose(shares[:, own] + shares[:, number], 1))
        edge = edge[np.argsort(shares[edge, own])]
        style = edge_look(number)
        axes.fill_between(shares[edge, own], *values[edge, 1:].T, color=style["color"], alpha=0.12, linewidth=0)
        axes.plot(shares[edge, own], values[edge, 0], **style, label=other)
    zero_line(axes)
    axes.set_xlabel("share of the weight on this component")


def draw_map(
    axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, arms: dict, observed: dict, limit: float
) -> ScalarMappable:
    """Draw the effect on a component as colour over the triangle, with dots where the interval includes 0.

    Arms are at their weights, with the marker of their sign in `observed`.

    Returns
    -------
    The colours, for a colour bar.
    """
    point_positions = positions(shares)
    known = effects["effect"].notna().to_numpy()
    triangles = Triangulation(*point_positions.T)
    triangles.set_mask((~known[triangles.triangles]).any(axis=1))
    colours: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    filled = axes.tripcolor(triangles, effects["effect"].fillna(0.0), shading="gouraud", zorder=0, **colours)
    unsure = ((effects["low"] <= 0) & (effects["high"] >= 0)).to_numpy() & known
    axes.plot(*point_positions[unsure].T, linestyle="none", marker=".", markersize=1.5, color="#303030", zorder=1)
    draw_triangle(axes, study.components)
    look = arm_looks(study)
    style: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6, "zorder": 4, "clip_on": False}
    for arm, vector in arms.items():
        x, y = positions(vector[None])[0]
        axes.scatter(
            x,
            y,
            45 if len(arms) <= MANY_POINTS else 8,
            color=look[arm].colour,
            marker=MARKS[observed.get(arm, 0)][0],
            **style,
        )
    return filled


def what_if(
    what_if: pd.DataFrame, what_if_points: pd.DataFrame, what_if_check: pd.DataFrame, study: StudyFile
) -> Figure:
    """Draw for each component the predicted effect of the weights, and how it changed in the trained arms.

    The map is over the components that score the baseline's runs, because it holds for the baseline's policy.
    """
    study = study.model_copy(update={"components": study.scored_by_arm[study.baseline]})
    if len(study.components) == 1:
        return page_of_words("nothing to choose: the study has one component")
    if what_if["effect"].notna().sum() == 0:
        return page_of_words(why_no_map(study))
    by_point = what_if_points.pivot(index="point", columns="component", values="weight")
    weights = by_point[study.components].to_numpy(dtype=float)
    signs = np.where(weights.sum(axis=0) < 0, -1.0, 1.0)
    shares, arms = weights * signs, arm_weights(study, signs)
    count = len(study.components)
    columns = min(count, 3)
    figure = Figure(figsize=(WIDTH, ceil(count / columns) * 2.5 + 0.4))
    panels = panel_grid(figure, count, columns)
    limit = float(what_if["effect"].abs().max()) or 1.0
    for panel, component in zip(panels, study.components, strict=True):
        effects = what_if[what_if["component"] == component].sort_values("point")
        observed = directions(what_if_check, component)
        if count == 3:
            filled = draw_map(panel, effects, shares, study, arms, observed, limit)
        elif count == 2:
            draw_line(panel, effects, shares, study, arms, observed)
        else:
            draw_edges(panel, effects, shares, study, component)
        panel.set_title(wrapped(f"effect on {component}", 34), loc="left", pad=14 if count == 3 else 6)
    if count == 3:
        bar = figure.colorbar(filled, ax=panels, shrink=0.8, aspect=20)
        bar.set_label("predicted change per\nunit of step length")
    else:
        for panel in panels[::columns]:
            panel.set_ylabel("predicted change\nper unit of step length")
    legend_below(figure, *legend_of(study, what_if, arms))
    return figure


def legend_of(study: StudyFile, what_if: pd.DataFrame, arms: dict) -> tuple[list[Artist], str]:
    """Legend entries and note of the figure. Arms are named if each has a colour of its own."""
    seeds, steps = int(what_if["seeds"].max()), int(what_if["steps"].max())
    level = f"{100 * study.confidence:g}\u00a0%"
    interval = "Dots: the interval includes 0" if len(study.components) == 3 else "Band: interval"
    note = (
        f"Policy: {what_if['arm'].iloc[0]} at its first {steps} measured step{'s' * (steps > 1)} (up to step "
        f"{what_if['step'].max()}), {seeds} seed{'s' * (seeds > 1)}; inner products over completions of different "
        f"prompts. {interval} ({level}, {over_words(what_if['interval'])})."
    )
    handles: list[Artist] = []
    if len(study.components) > 3:
        for number, name in enumerate(study.components):
            handles.append(Line2D([], [], **edge_look(number), label=f"against {name}"))
        return handles, f"{note} Each line: all weight is on two components."
    look = arm_looks(study)
    for arm in arms if len(arms) <= len(COLOURS) else ():
        handles.append(Line2D([], [], color=look[arm].colour, marker="s", linestyle="none", label=arm))
    for mark, words in MARKS.values():
        handles.append(Line2D([], [], color=BASE_COLOUR, marker=mark, linestyle="none", markersize=5, label=words))
    return handles, f"{note} Marks: observed change in the arm that was trained with these weights."
