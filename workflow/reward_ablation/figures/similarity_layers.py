"""Figure: similarity of the components' gradients by layer."""

from __future__ import annotations

from itertools import combinations
from math import ceil

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.curves import arm_groups, curve_panels, draw_arms, finish, panel_title, seeds_note
from reward_ablation.figures.similarity_steps import cosine_axis, of_pair, why_not_measured
from reward_ablation.figures.style import STYLE, page_of_words

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

    return sorted((layer for layer in layers if layer != "all"), key=place)


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


@rc_context(STYLE)
def similarity_layers(similarity_by_step: pd.DataFrame, study: StudyFile) -> Figure:
    """Panels for each pair of components: cosine by layer, its mean over all measured steps, by arm."""
    heading = "Gradient similarity of components by layer"
    places = layer_places(layers_in_order(list(similarity_by_step["layer"].unique())))
    if not places:
        return page_of_words(heading, why_not_measured(study))
    pairs = list(combinations(study.components, 2))
    figure, rows = curve_panels(study, len(pairs), height=2.6)
    for row, pair in zip(rows, pairs, strict=True):
        table = of_pair(similarity_by_step[similarity_by_step["layer"] != "all"], *pair)
        means = table.groupby(["arm", "seed", "layer"])["cosine"].mean().reset_index()
        means["place"] = means["layer"].map(places)
        for panel, arms in zip(row, arm_groups(study), strict=True):
            draw_arms(panel, means, study, arms, "place", "cosine")
            cosine_axis(panel)
            panel_title(panel, " · ".join(pair), study, arms)
            layer_axis(panel, places)
        row[0].set_ylabel("cosine of gradients")
    note = f"Each seed: mean over its measured steps ({similarity_by_step['step'].nunique()}). {seeds_note(study)}"
    finish(figure, study, heading, note)
    return figure
