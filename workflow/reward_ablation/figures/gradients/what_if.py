"""Figure: what any weights do to each component, to first order, before training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.tri import Triangulation

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.simplex import draw_triangle, positions
from reward_ablation.figures.elements.style import (
    COLOURS,
    DASHES,
    STYLE,
    WIDTH,
    legend_below,
    looks,
    page_of_words,
    title,
    wrapped,
)
from reward_ablation.figures.gradients.similarity_steps import switched_off

#: How an observed change is marked: up, down, or not told from none.
MARKS = {1: ("^", "rose in training"), -1: ("v", "fell in training"), 0: ("o", "not told from no change")}


def why_no_map(study: StudyFile) -> str:
    """Say why a study has no map over weights."""
    return switched_off(study) or (
        "the stored Gram matrices do not say what other weights would do:\n"
        "rewards on some tokens only, clipped rollouts, or no two prompts in one micro-batch"
    )


def directions(what_if_check: pd.DataFrame, component: str) -> dict[str, int]:
    """Sign of each arm's observed change of a component; 0 where its interval holds 0, or nothing is known."""
    rows = what_if_check[what_if_check["component"] == component].set_index("arm")
    clear = rows["low"] * rows["high"] > 0
    return np.sign(rows["observed"]).where(clear, 0).astype(int).to_dict()


def wide(table: pd.DataFrame, value: str, study: StudyFile) -> np.ndarray:
    """Values as (points, components) array."""
    return table.pivot(index="point", columns="component", values=value)[study.components].to_numpy(dtype=float)


def arm_weights(study: StudyFile, signs: np.ndarray) -> dict[str, np.ndarray]:
    """Shares of the weights of each arm that lies on the map: its weights have the map's signs."""
    weights = {arm.name: np.array([arm.weights[name] for name in study.components]) * signs for arm in study.arms}
    return {arm: vector / vector.sum() for arm, vector in weights.items() if (vector >= 0).all() and vector.sum() > 0}


def draw_line(axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, arms: dict, seen: dict) -> None:
    """Draw the effect on a component along the line between two, with its interval, and the arms above it."""
    values = effects.sort_values("point")
    axes.fill_between(shares[:, 1], values["low"], values["high"], color="#0072B2", alpha=0.2, linewidth=0)
    axes.plot(shares[:, 1], values["effect"], color="#0072B2")
    look = looks(study)
    for arm, vector in arms.items():
        height = np.interp(vector[1], shares[:, 1], values["effect"])
        axes.plot(vector[1], height, MARKS[seen.get(arm, 0)][0], color=look[arm].colour, markersize=6, zorder=4)
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)
    axes.set_xlabel(f"share of the weight on {wrapped(study.components[1], 24)}")


def edge_look(place: int) -> dict[str, Any]:
    """How the edge to a component is drawn."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def draw_edges(axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, component: str) -> None:
    """Draw the effect on a component along the edges from every other component to it, with intervals."""
    own = study.components.index(component)
    values = effects.sort_values("point")[["effect", "low", "high"]].to_numpy(dtype=float)
    for place, other in enumerate(study.components):
        if place == own:
            continue
        here = np.flatnonzero(np.isclose(shares[:, own] + shares[:, place], 1))
        here = here[np.argsort(shares[here, own])]
        style = edge_look(place)
        axes.fill_between(shares[here, own], *values[here, 1:].T, color=style["color"], alpha=0.12, linewidth=0)
        axes.plot(shares[here, own], values[here, 0], **style, label=other)
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)
    axes.set_xlabel("its share of the weight")


def draw_map(
    axes: Axes, effects: pd.DataFrame, shares: np.ndarray, study: StudyFile, arms: dict, seen: dict, limit: float
) -> ScalarMappable:
    """Draw the effect on a component as colour over the triangle, dotted where not told from 0; arms on top."""
    values = effects.sort_values("point")
    places = positions(shares)
    known = values["effect"].notna().to_numpy()
    shapes = Triangulation(*places.T)
    shapes.set_mask((~known[shapes.triangles]).any(axis=1))
    filled = axes.tripcolor(
        shapes, values["effect"].fillna(0.0), shading="gouraud", cmap="RdBu_r", vmin=-limit, vmax=limit, zorder=0
    )
    unsure = ((values["low"] <= 0) & (values["high"] >= 0)).to_numpy() & known
    axes.plot(*places[unsure].T, linestyle="none", marker=".", markersize=1.5, color="#303030", zorder=1)
    draw_triangle(axes, study.components)
    look = looks(study)
    for arm, vector in arms.items():
        mark = MARKS[seen.get(arm, 0)][0]
        x, y = positions(vector[None])[0]
        axes.scatter(
            x, y, 45, color=look[arm].colour, marker=mark, edgecolor="black", linewidth=0.6, zorder=4, clip_on=False
        )
    return filled


def handles_of(study: StudyFile, arms: dict) -> list[Artist]:
    """Legend: arms by colour where they can be told apart, and the marks of observed changes."""
    look = looks(study)
    some = arms if len(arms) <= len(COLOURS) else {}
    named = [Line2D([], [], color=look[arm].colour, marker="s", linestyle="none", label=arm) for arm in some]
    marks = [
        Line2D([], [], color="#606060", marker=mark, linestyle="none", markersize=5, label=words)
        for mark, words in MARKS.values()
    ]
    return [*named, *marks]


@rc_context(STYLE)
def what_if(
    what_if: pd.DataFrame, what_if_points: pd.DataFrame, what_if_check: pd.DataFrame, study: StudyFile
) -> Figure:
    """A panel for each component: effect of the weights on it before training, and what it did in the trained arms."""
    heading = "First-order effect of the weights on each component"
    if len(study.components) == 1:
        return page_of_words(heading, "nothing to choose: the study has one component")
    if what_if["effect"].notna().sum() == 0:
        return page_of_words(heading, why_no_map(study))
    weights = wide(what_if_points, "weight", study)
    signs = np.where(weights.sum(axis=0) < 0, -1.0, 1.0)
    shares, arms = weights * signs, arm_weights(study, signs)
    kinds = len(study.components)
    columns = min(kinds, 3)
    lines = -(-kinds // columns)
    figure = Figure(figsize=(WIDTH, lines * 2.5 + 0.4))
    panels = figure.subplots(lines, columns, squeeze=False)
    for spare in panels.flat[kinds:]:
        spare.remove()
    limit = float(what_if["effect"].abs().max()) or 1.0
    for place, (panel, component) in enumerate(zip(panels.flat, study.components, strict=False)):
        effects, seen = what_if[what_if["component"] == component], directions(what_if_check, component)
        if kinds == 3:
            filled = draw_map(panel, effects, shares, study, arms, seen, limit)
        elif kinds == 2:
            draw_line(panel, effects, shares, study, arms, seen)
        else:
            draw_edges(panel, effects, shares, study, component)
        panel.set_title(wrapped(f"effect on {component}", 34), loc="left", pad=14 if kinds == 3 else 6)
        if kinds != 3 and place % columns == 0:
            panel.set_ylabel("change per unit of step length")
    if kinds == 3:
        bar = figure.colorbar(filled, ax=panels, shrink=0.8, aspect=20)
        bar.set_label("change per unit\nof step length")
    title(figure, heading)
    legend_below(figure, *legend_of(study, what_if, arms, kinds))
    return figure


def legend_of(study: StudyFile, what_if: pd.DataFrame, arms: dict, kinds: int) -> tuple[list[Artist], str]:
    """Legend entries and the note."""
    seeds, steps = int(what_if["seeds"].max()), int(what_if["steps"].max())
    level = f"{100 * study.confidence:g}\u00a0%"
    interval = "Dots: not told from 0" if kinds == 3 else "Band: interval"
    note = (
        f"Policy: {what_if['arm'].iloc[0]} at its first {steps} measured step{'s' * (steps > 1)} (up to step "
        f"{what_if['step'].max()}), {seeds} seed{'s' * (seeds > 1)}; inner products over completions of different "
        f"prompts. {interval} ({level}, bootstrap over seeds and steps)."
    )
    if kinds > 3:
        handles: list[Artist] = [
            Line2D([], [], **edge_look(place), label=f"against {name}") for place, name in enumerate(study.components)
        ]
        return handles, f"{note} Lines: all weight on two components."
    return handles_of(study, arms), f"{note} Marks: what the component did in the arm trained with these weights."
