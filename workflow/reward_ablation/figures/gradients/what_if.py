"""Figure: what any weights do to each component, to first order, before training."""

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
    legend_below,
    looks,
    page_of_words,
    panel_grid,
    wrapped,
    zero_line,
)
from reward_ablation.figures.elements.weights import MANY_POINTS, draw_triangle, positions
from reward_ablation.figures.gradients.similarity_steps import switched_off

#: How an observed change is marked: up, down, or not told from none.
MARKS = {1: ("^", "rose in training"), -1: ("v", "fell in training"), 0: ("o", "no clear change")}


def why_no_map(study: StudyFile) -> str:
    """Say why a study has no map over weights."""
    return switched_off(study) or (
        "the stored Gram matrices do not say what other weights would do:\n"
        "rewards on some tokens only, clipped rollouts, or no two prompts in one micro-batch"
    )


def over_words(interval: pd.Series) -> str:
    """Say what the intervals of a table are over, from its column `interval`."""
    kinds = set(interval.dropna())
    if not kinds:
        return "no interval: one seed with few steps"
    words = {"seeds": "Student's t over seeds", "steps": "block bootstrap over the steps of one seed"}
    return " or ".join(text for kind, text in words.items() if kind in kinds)


def directions(what_if_check: pd.DataFrame, component: str) -> dict[str, int]:
    """Sign of each arm's observed change of a component; 0 where its interval holds 0, or nothing is known."""
    rows = what_if_check[what_if_check["component"] == component].set_index("arm")
    clear = rows["observed_low"] * rows["observed_high"] > 0
    return np.sign(rows["observed"]).where(clear, 0).astype(int).to_dict()


def arm_weights(study: StudyFile, signs: np.ndarray) -> dict[str, np.ndarray]:
    """Shares of the weights of each arm that lies on the map: of its components alone, and with the map's signs."""
    weights = {
        arm.name: np.array([arm.weights[name] for name in study.components]) * signs
        for arm in study.arms
        if arm.has_fixed_weights and not any(arm.weights[name] for name in arm.weights if name not in study.components)
    }
    return {arm: vector / vector.sum() for arm, vector in weights.items() if (vector >= 0).all() and vector.sum() > 0}


def draw_line(axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, arms: dict, seen: dict) -> None:
    """Draw the effect on a component along the line between two, with its interval, and the arms above it."""
    x, effect = shares[:, 1], effects["effect"]
    axes.fill_between(x, effects["low"], effects["high"], color=COLOURS[0], alpha=0.2, linewidth=0)
    axes.plot(x, effect, color=COLOURS[0])
    look, size = looks(study), 6 if len(arms) <= MANY_POINTS else 2
    for arm, vector in arms.items():
        height = np.interp(vector[1], x, effect)
        axes.plot(vector[1], height, MARKS[seen.get(arm, 0)][0], color=look[arm].colour, markersize=size, zorder=4)
    zero_line(axes)
    axes.set_xlabel(f"share of the weight on {wrapped(study.components[1], 24)}")


def edge_look(place: int) -> dict[str, Any]:
    """How the edge to a component is drawn."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def draw_edges(axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, component: str) -> None:
    """Draw the effect on a component along the edges from every other component to it, with intervals."""
    own = study.components.index(component)
    values = effects[["effect", "low", "high"]].to_numpy(dtype=float)
    for place, other in enumerate(study.components):
        if place == own:
            continue
        here = np.flatnonzero(np.isclose(shares[:, own] + shares[:, place], 1))
        here = here[np.argsort(shares[here, own])]
        style = edge_look(place)
        axes.fill_between(shares[here, own], *values[here, 1:].T, color=style["color"], alpha=0.12, linewidth=0)
        axes.plot(shares[here, own], values[here, 0], **style, label=other)
    zero_line(axes)
    axes.set_xlabel("share of the weight on this component")


def draw_map(
    axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, arms: dict, seen: dict, limit: float
) -> ScalarMappable:
    """Draw the effect on a component as colour over the triangle, dotted where the interval includes 0; arms on top."""
    places = positions(shares)
    known = effects["effect"].notna().to_numpy()
    shapes = Triangulation(*places.T)
    shapes.set_mask((~known[shapes.triangles]).any(axis=1))
    colours: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    filled = axes.tripcolor(shapes, effects["effect"].fillna(0.0), shading="gouraud", zorder=0, **colours)
    unsure = ((effects["low"] <= 0) & (effects["high"] >= 0)).to_numpy() & known
    axes.plot(*places[unsure].T, linestyle="none", marker=".", markersize=1.5, color="#303030", zorder=1)
    draw_triangle(axes, study.components)
    look = looks(study)
    style: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6, "zorder": 4, "clip_on": False}
    for arm, vector in arms.items():
        x, y = positions(vector[None])[0]
        axes.scatter(
            x,
            y,
            45 if len(arms) <= MANY_POINTS else 8,
            color=look[arm].colour,
            marker=MARKS[seen.get(arm, 0)][0],
            **style,
        )
    return filled


def what_if(
    what_if: pd.DataFrame, what_if_points: pd.DataFrame, what_if_check: pd.DataFrame, study: StudyFile
) -> Figure:
    """A panel for each component: effect of the weights on it before training, and what it did in the trained arms.

    The map is over the components that score the baseline's runs, whose policy it shows.
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
    kinds = len(study.components)
    columns = min(kinds, 3)
    figure = Figure(figsize=(WIDTH, ceil(kinds / columns) * 2.5 + 0.4))
    panels = panel_grid(figure, kinds, columns)
    limit = float(what_if["effect"].abs().max()) or 1.0
    for panel, component in zip(panels, study.components, strict=True):
        effects = what_if[what_if["component"] == component].sort_values("point")
        seen = directions(what_if_check, component)
        if kinds == 3:
            filled = draw_map(panel, effects, shares, study, arms, seen, limit)
        elif kinds == 2:
            draw_line(panel, effects, shares, study, arms, seen)
        else:
            draw_edges(panel, effects, shares, study, component)
        panel.set_title(wrapped(f"effect on {component}", 34), loc="left", pad=14 if kinds == 3 else 6)
    if kinds == 3:
        bar = figure.colorbar(filled, ax=panels, shrink=0.8, aspect=20)
        bar.set_label("predicted change per\nunit of step length")
    else:
        for panel in panels[::columns]:
            panel.set_ylabel("predicted change\nper unit of step length")
    legend_below(figure, *legend_of(study, what_if, arms))
    return figure


def legend_of(study: StudyFile, what_if: pd.DataFrame, arms: dict) -> tuple[list[Artist], str]:
    """Legend entries and the note; arms are named where their colours can be told apart."""
    seeds, steps = int(what_if["seeds"].max()), int(what_if["steps"].max())
    level = f"{100 * study.confidence:g}\u00a0%"
    interval = "Dots: interval includes 0" if len(study.components) == 3 else "Band: interval"
    note = (
        f"Policy: {what_if['arm'].iloc[0]} at its first {steps} measured step{'s' * (steps > 1)} (up to step "
        f"{what_if['step'].max()}), {seeds} seed{'s' * (seeds > 1)}; inner products over completions of different "
        f"prompts. {interval} ({level}, {over_words(what_if['interval'])})."
    )
    handles: list[Artist] = []
    if len(study.components) > 3:
        for place, name in enumerate(study.components):
            handles.append(Line2D([], [], **edge_look(place), label=f"against {name}"))
        return handles, f"{note} Lines: all weight on two components."
    look = looks(study)
    for arm in arms if len(arms) <= len(COLOURS) else ():
        handles.append(Line2D([], [], color=look[arm].colour, marker="s", linestyle="none", label=arm))
    for mark, words in MARKS.values():
        handles.append(Line2D([], [], color=BASE_COLOUR, marker=mark, linestyle="none", markersize=5, label=words))
    return handles, f"{note} Marks: observed change in the arm that was trained with these weights."
