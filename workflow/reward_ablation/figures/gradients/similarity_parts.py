"""Figure: gradient similarity of components, and the parts of the cosine."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend
from reward_ablation.figures.elements.estimates import draw_side_by_side, over_words
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import page_of_words
from reward_ablation.figures.gradients.similarity_steps import (
    exactness_note,
    limit_of,
    pair_panels,
    rows_of_single_rewards,
    similarity_axis,
    why_not_measured,
)
from reward_ablation.gram.similarity import ALL_LAYERS

#: Estimates with their names below a panel. The first two are unbiased: no completion is compared with itself.
LABELS = {
    "split_halves": "split halves",
    "cross_prompt": "across prompts",
    "cosine": "cosine",
    "self": "self",
    "same_prompt": "same prompt",
    "across_blocks": "between batches",
}


def shown_parts(estimates: pd.DataFrame) -> list[str]:
    """Estimates to show. Split halves and pairs between batches are left out if they are zero everywhere."""
    known = {part for part, of_part in estimates.groupby("part") if (of_part["estimate"].fillna(0) != 0).any()}
    return [part for part in LABELS if part in known or part not in ("across_blocks", "split_halves")]


def part_axis(axes: Axes, parts: list[str]) -> None:
    """Name the parts on the x axis, and put the unbiased estimates on grey."""
    if len(parts) > 4:  # horizontal names would run into each other
        axes.set_xticks(range(len(parts)), [LABELS[part] for part in parts], rotation=90)
    else:
        axes.set_xticks(range(len(parts)), [LABELS[part].replace(" ", "\n") for part in parts])
    axes.axvspan(-0.5, parts.index("cross_prompt") + 0.5, color="#f0f0f0", linewidth=0, zorder=0)


def estimates_note(study: StudyFile, similarity_by_arm: pd.DataFrame, mark: str, span: str) -> str:
    """Say what the similarities are over: `mark` names what shows an estimate, and `span` what shows its interval."""
    seeds, steps = similarity_by_arm["seeds"].max(), similarity_by_arm["steps"].max()
    of_seeds = "the one seed" if seeds == 1 else f"{seeds} seeds"
    level = f"{100 * study.confidence:g}\u00a0%"
    return (
        f"{mark}: over the measured steps ({steps}), mean over {of_seeds}. {span}: {level} interval "
        f"({over_words(similarity_by_arm['interval'])}). {exactness_note(study, similarity_by_arm['folding_error'])}"
    )


def similarity_parts(similarity_by_arm: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each pair of components the unbiased estimates over all parameters, then the cosine and its parts."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    estimates = rows_of_single_rewards(similarity_by_arm[similarity_by_arm["layer"] == ALL_LAYERS])
    if estimates.empty:
        return page_of_words(why_not_measured(study))
    parts = shown_parts(estimates)
    limit = min(1.05, limit_of(1.5 * estimates[["estimate"]]))
    figure, rows = pair_panels(study, estimates, height=2.2 if len(parts) <= 4 else 2.8, label="similarity")
    for row, of_pair in rows:
        for panel, arms in row:
            draw_side_by_side(panel, of_pair, study, arms, "part", parts)
            similarity_axis(panel, limit, of_pair, arms)
            part_axis(panel, parts)
    between = ", between batches (micro-batches or processes)" if "across_blocks" in parts else ""
    halves = "Split halves: cosine of the expected gradients, if their norms are resolved. " * ("split_halves" in parts)
    note = (
        f"On grey: estimates that noise does not bias. {halves}Across prompts: part of the plain cosine from "
        "completions of different prompts. The plain cosine is the sum of these parts: across prompts, self (each "
        f"completion with itself, which follows from the advantages alone), same prompt{between}. The sign of the "
        f"plain cosine alone says nothing. Bars may leave the panel. "
        f"{estimates_note(study, estimates, 'Points', 'Bars')}"
    )
    add_arm_legend(figure, study, note)
    return figure
