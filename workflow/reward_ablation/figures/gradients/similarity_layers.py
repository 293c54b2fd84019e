"""Figure: gradient similarity of components across prompts, by layer."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import ceil

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend, draw_curves
from reward_ablation.figures.elements.estimates import over_words
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import page_of_words
from reward_ablation.figures.gradients.similarity_steps import (
    PART,
    PROMPTS_NOT_SEPARATED,
    exactness_note,
    limit_of,
    pair_panels,
    rows_of_single_rewards,
    similarity_axis,
    why_not_measured,
)
from reward_ablation.gram.similarity import ALL_LAYERS

#: Most labels of numbered layers below a panel.
MOST_LABELS = 12


def is_numbered(layer: str) -> bool:
    """Whether a layer is a numbered block, such as `layers.3`."""
    return layer.rsplit(".", 1)[-1].isdigit()


def layers_in_order(layers: list[str]) -> list[str]:
    """Sort layers from input to output: embeddings, numbered layers, then the others in the order of `layers`.

    The others are the final norm and the head, which models list last.
    """

    def depth(layer: str) -> tuple[int, int]:
        if is_numbered(layer):
            return 1, int(layer.rsplit(".", 1)[-1])
        return (0, 0) if layer.startswith("embed") else (2, 0)

    return sorted((layer for layer in layers if layer != ALL_LAYERS), key=depth)


def layer_positions(layers: list[str]) -> dict[str, float]:
    """Positions of layers on the x axis.

    Numbered layers are 1 apart. Other layers are further from their neighbours, so that their names do not overlap.
    """
    wide = max(1.0, sum(map(is_numbered, layers)) / MOST_LABELS)
    gaps = (1.0 if is_numbered(before) and is_numbered(layer) else wide for before, layer in pairwise(layers))
    return dict(zip(layers, accumulate(gaps, initial=0.0), strict=False))


def layer_axis(axes: Axes, x_of_layer: dict[str, float]) -> None:
    """Label the layers on the x axis. Of many numbered layers, only some have a label."""
    numbered = [layer for layer in x_of_layer if is_numbered(layer)]
    shown = numbered[:: max(1, ceil(len(numbered) / MOST_LABELS))]
    shown += [layer for layer in x_of_layer if not is_numbered(layer)]
    axes.set_xticks(
        [x_of_layer[layer] for layer in shown], [layer.removeprefix("layers.") for layer in shown], rotation=90
    )
    margin = 0.03 * max(x_of_layer.values()) + 0.1
    axes.set_xlim(-margin, max(x_of_layer.values()) + margin)
    axes.set_xlabel("layer")


def estimates_note(study: StudyFile, similarity_by_arm: pd.DataFrame, mark: str, span: str) -> str:
    """Say what the similarities are over: `mark` names what shows an estimate, and `span` what shows its interval."""
    seeds, steps = similarity_by_arm["seeds"].max(), similarity_by_arm["steps"].max()
    of_seeds = "the one seed" if seeds == 1 else f"{seeds} seeds"
    level = f"{100 * study.confidence:g}\u00a0%"
    return (
        f"{mark}: over the measured steps ({steps}), mean over {of_seeds}. {span}: {level} interval "
        f"({over_words(similarity_by_arm['interval'])}). {exactness_note(study, similarity_by_arm['folding_error'])}"
    )


def similarity_layers(similarity_by_arm: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each pair of components the similarity across prompts by layer, over all steps and seeds of an arm."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    estimates = rows_of_single_rewards(similarity_by_arm[similarity_by_arm["part"] == PART])
    x_of_layer = layer_positions(layers_in_order(list(estimates["layer"].unique())))
    if not x_of_layer or not (estimates["estimate"].fillna(0) != 0).any():
        return page_of_words(PROMPTS_NOT_SEPARATED if x_of_layer else why_not_measured(study))
    curves = estimates[estimates["layer"] != ALL_LAYERS].rename(columns={"estimate": "mean"})
    limit = limit_of(curves[["mean"]] * 1.5)
    figure, rows = pair_panels(study, curves.assign(x=curves["layer"].map(x_of_layer)), height=2.6)
    for row, of_pair in rows:
        for panel, arms in row:
            draw_curves(panel, of_pair, study, arms)
            similarity_axis(panel, limit, of_pair, arms)
            layer_axis(panel, x_of_layer)
    note = (
        "Part of the cosine of a layer that comes from completions of different prompts: its noise has mean 0. Bands "
        f"may leave the panel. {estimates_note(study, estimates, 'Line', 'Band')}"
    )
    add_arm_legend(figure, study, note)
    return figure
