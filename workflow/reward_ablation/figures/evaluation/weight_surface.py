"""Figure: the surface of the primary metric over the shares of the weights, its uncertainty and its check."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.design.surface.words import errors, is_ahead, verdict
from reward_ablation.figures.elements.style import (
    COLOURS,
    ONE_COLUMN,
    WIDTH,
    legend_below,
    page_of_words,
    round_ticks,
    wrapped,
)
from reward_ablation.figures.elements.weights import MANY_POINTS, draw_triangle, positions

#: Height of the panels in inches.
HEIGHT = 2.6


class Part(NamedTuple):
    """Rows of the table `weight_surface`, and their shares as a (rows, components) array."""

    rows: pd.DataFrame
    shares: np.ndarray

    @classmethod
    def of(cls, rows: pd.DataFrame, points: pd.DataFrame) -> Part:
        """Find the shares of rows in the table `weight_surface_points`."""
        by_point = points.pivot(index="point", columns="component", values="share")[list(points["component"].unique())]
        return cls(rows, by_point.loc[rows["point"]].to_numpy(dtype=float))


def weight_surface(surface: pd.DataFrame, points: pd.DataFrame, check: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the surface as a map, and its check.

    Only the check is drawn for more than three components, or if the surface is not better than the simple rules.
    """
    if surface.empty:
        return page_of_words("too few arms that differ in their weights alone")
    arms, grid = (Part.of(surface[surface["arm"].notna() == is_arm], points) for is_arm in (True, False))
    components = list(points["component"].unique())
    maps = {2: 1, 3: 2}.get(len(components), 0) if is_ahead(check) else 0
    figure = Figure(figsize=(WIDTH if maps else ONE_COLUMN * 1.5, HEIGHT))
    *panels, last = figure.subplots(1, maps + 1, squeeze=False)[0]
    if maps == 2:
        draw_maps(figure, panels, grid, arms, components, study)
    elif maps == 1:
        draw_line(panels[0], grid, arms, components, study)
    draw_check(last, arms.rows, study)
    level = f"{100 * study.confidence:g}\u00a0%"
    map_notes = [
        "No map is drawn.",
        f"Line and band: the surface with its {level} interval; points: the arms.",
        f"Points: the arms, coloured by their measured metric. Uncertainty: half the {level} interval of the expected "
        "metric.",
    ]
    no_map = ["There is no map for more than three components."] if len(components) > 3 else []
    legend_below(figure, [], " ".join([map_notes[maps], errors(check, study), verdict(check), *no_map]))
    return figure


def draw_maps(
    figure: Figure,
    panels: list[Axes],
    grid: Part,
    arms: Part,
    components: list[str],
    study: StudyFile,
) -> None:
    """Draw the expected metric, and half the length of its interval, as colours over triangles, with the arms."""
    rows, shares = grid.rows, grid.shares
    half = (rows["high"] - rows["low"]).to_numpy() / 2
    of_metric = np.concatenate([rows["estimate"], arms.rows["observed"]])
    looks: list[tuple[np.ndarray, str, Any]] = [
        (rows["estimate"].to_numpy(), "viridis", {"vmin": of_metric.min(), "vmax": of_metric.max()}),
        (half, "Greys", {"vmin": 0.0, "vmax": half.max() or 1.0}),
    ]
    titles = [name_of(study.primary.metric), "uncertainty"]
    triangles, arm_positions = Triangulation(*positions(shares).T), positions(arms.shares)
    sizes = (28, 28) if len(arm_positions) <= MANY_POINTS else (6, 0.5)  # many points would hide the uncertainty
    for number, (panel, (values, colours, limits)) in enumerate(zip(panels, looks, strict=True)):
        filled = panel.tripcolor(triangles, values, shading="gouraud", cmap=colours, zorder=0, **limits)
        draw_triangle(panel, components)
        face: dict[str, Any] = {"color": "white"} if number else {"c": arms.rows["observed"], "cmap": colours, **limits}
        panel.scatter(
            arm_positions[:, 0],
            arm_positions[:, 1],
            sizes[number],
            edgecolor="black",
            linewidth=sizes[number] / 40,
            zorder=3,
            clip_on=False,
            **face,
        )
        panel.set_title(titles[number], loc="left", pad=18)
        figure.colorbar(filled, ax=panel, shrink=0.7, aspect=18, location="bottom").outline.set_visible(False)


def draw_line(
    axes: Axes,
    grid: Part,
    arms: Part,
    components: list[str],
    study: StudyFile,
) -> None:
    """Draw the expected metric and its interval against the share of the second component, with the arms as points."""
    rows, shares = grid.rows, grid.shares
    order = np.argsort(shares[:, 1])
    low, estimate, high = (rows[name].to_numpy()[order] for name in ("low", "estimate", "high"))
    axes.fill_between(shares[order, 1], low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
    axes.plot(shares[order, 1], estimate, color=COLOURS[0])
    axes.plot(
        arms.shares[:, 1], arms.rows["observed"], "o" if len(arms.rows) <= MANY_POINTS else ".", color="black", zorder=3
    )
    axes.set_xlabel(f"share of the weight on {wrapped(components[1], 24)}")
    axes.set_ylabel(name_of(study.primary.metric))


def draw_check(axes: Axes, arms: pd.DataFrame, study: StudyFile) -> None:
    """Draw the prediction of each arm from the other arms, with its interval, against the measured metric."""
    predicted, low, high = (arms[f"left_out{end}"].to_numpy() for end in ("", "_low", "_high"))
    observed = arms["observed"].to_numpy()
    ends = [min(low.min(), observed.min()), max(high.max(), observed.max())]
    axes.plot(ends, ends, color="black", linewidth=0.8, zorder=1)
    bars = np.maximum([predicted - low, high - predicted], 0)
    many: dict[str, Any] = {"markersize": 1.2, "elinewidth": 0.3, "alpha": 0.5} if len(arms) > MANY_POINTS else {}
    axes.errorbar(observed, predicted, yerr=bars, fmt="o", color=COLOURS[0], **{"elinewidth": 0.9, **many})
    axes.set_xlabel(f"measured {name_of(study.primary.metric)}")
    axes.set_ylabel("predicted from the other arms")
    for axis in (axes.xaxis, axes.yaxis):
        round_ticks(axis, 5)
    axes.set_title("predicted and measured", loc="left")
