"""Figure: similarity of the components' gradients by layer."""

from __future__ import annotations

from itertools import combinations
from math import ceil

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import arm_groups, curve_panels, draw_curve, finish, panel_title
from reward_ablation.figures.elements.style import STYLE, looks, page_of_words
from reward_ablation.figures.gradients.similarity_steps import (
    alone,
    cosine_axis,
    folding_note,
    of_pair,
    precision_note,
    why_not_measured,
)
from reward_ablation.gram.similarity import ALL_LAYERS

#: Most labels of layers under one panel.
MOST_LABELS = 12


def is_numbered(layer: str) -> bool:
    """Tell whether a layer is one of the blocks, such as layers.3."""
    return layer.rsplit(".", 1)[-1].isdigit()


def layers_in_order(layers: list[str]) -> list[str]:
    """Layers from input to output: embeddings, numbered layers by number, then the others as they come.

    The others are the final norm and the head, which models list last.
    """

    def place(layer: str) -> tuple[int, int]:
        if is_numbered(layer):
            return 1, int(layer.rsplit(".", 1)[-1])
        return (0, 0) if layer.startswith("embed") else (2, 0)

    return sorted((layer for layer in layers if layer != ALL_LAYERS), key=place)


def layer_places(layers: list[str]) -> dict[str, float]:
    """Places on an axis: numbered layers one apart, others further from their neighbours, for their names."""
    numbered = sum(is_numbered(layer) for layer in layers)
    apart = max(1.0, numbered / MOST_LABELS)
    places: dict[str, float] = {}
    place = 0.0
    for layer, before in zip(layers, [None, *layers], strict=False):
        if before is not None:
            place += 1.0 if is_numbered(layer) and is_numbered(before) else apart
        places[layer] = place
    return places


def layer_axis(axes: Axes, places: dict[str, float]) -> None:
    """Label layers: some of the numbered ones where they are many."""
    numbered = [layer for layer in places if is_numbered(layer)]
    shown = numbered[:: max(1, ceil(len(numbered) / MOST_LABELS))] + [
        layer for layer in places if not is_numbered(layer)
    ]
    axes.set_xticks([places[layer] for layer in shown], [layer.removeprefix("layers.") for layer in shown], rotation=90)
    margin = 0.03 * max(places.values()) + 0.1
    axes.set_xlim(-margin, max(places.values()) + margin)
    axes.set_xlabel("layer")


def draw_layers(
    axes: Axes, estimates: pd.DataFrame, study: StudyFile, arms: list[str], places: dict[str, float]
) -> None:
    """Draw a line over layers and the band of its interval for each of `arms`.

    Parameters
    ----------
    estimates : DataFrame
        arm, layer, estimate, low and high of one pair of components.
    """
    look = looks(study)
    for place, arm in enumerate(arms):
        curve = estimates[estimates["arm"] == arm].rename(columns={"estimate": "mean"})
        curve = curve.assign(x=curve["layer"].map(places)).sort_values("x", ignore_index=True)
        if curve.empty:  # an arm whose runs were not measured
            continue
        draw_curve(axes, curve, arm, look[arm], place, len(arms))


def estimates_note(study: StudyFile, similarity_by_arm: pd.DataFrame, mark: str, span: str) -> str:
    """Say what estimates and intervals of similarities are.

    Parameters
    ----------
    mark, span : str
        What shows the estimate and what its interval, such as Line and Band.
    """
    seeds, steps = similarity_by_arm["seeds"].max(), similarity_by_arm["steps"].max()
    of_seeds = "the one seed" if seeds == 1 else f"{seeds} seeds"
    resampled = "steps" if seeds == 1 else "seeds and steps"
    level = f"{100 * study.confidence:g}\u00a0%"
    few = " With so few seeds intervals tend to be too short." if 1 < seeds < 10 else ""
    return (
        f"{mark}: mean over the measured steps ({steps}) of {of_seeds}. {span}: {level} bootstrap interval "
        f"over {resampled}, steps taken as independent.{few} {precision_note(study)}"
        f"{folding_note(similarity_by_arm['folding_error'])}"
    )


@rc_context(STYLE)
def similarity_layers(similarity_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Panels for each pair of components: cosine by layer, its mean over all measured steps and seeds, by arm."""
    heading = "Gradient similarity of components by layer"
    cosines = alone(similarity_by_arm[similarity_by_arm["part"] == "cosine"])
    places = layer_places(layers_in_order(list(cosines["layer"].unique())))
    if not places:
        return page_of_words(heading, why_not_measured(study))
    pairs = list(combinations(study.components, 2))
    figure, rows = curve_panels(study, len(pairs), height=2.6)
    for row, pair in zip(rows, pairs, strict=True):
        estimates = of_pair(cosines[cosines["layer"] != ALL_LAYERS], *pair)
        for panel, arms in zip(row, arm_groups(study), strict=True):
            draw_layers(panel, estimates, study, arms, places)
            cosine_axis(panel)
            panel_title(panel, " · ".join(pair), study, arms)
            layer_axis(panel, places)
        row[0].set_ylabel("cosine of gradients")
    finish(figure, study, heading, estimates_note(study, cosines, "Line", "Band"))
    return figure
