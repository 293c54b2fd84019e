"""Figure: similarity of the components' gradients over training."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.config.sections.training import BY_TRL
from reward_ablation.figures.elements.curves import (
    arm_groups,
    curve_panels,
    draw_arms,
    finish,
    panel_title,
    seeds_note,
    step_axis,
    steps_per_point,
    thinned,
)
from reward_ablation.figures.elements.style import STYLE, page_of_words
from reward_ablation.gram.similarity import ALL_LAYERS

#: Points of a curve: the cosine of one step's gradients is noise for the most part, and neighbours are averaged.
MOST_POINTS = 20


def alone(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the gradients that components give as the only reward, which every arm has for every component."""
    return table[table["definition"] == "alone"]


def of_pair(table: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Rows of one pair of components, in whichever order the table names them."""
    a, b = table["component_a"], table["component_b"]
    return table[((a == first) & (b == second)) | ((a == second) & (b == first))]


def cosine_axis(axes: Axes) -> None:
    """Give a panel the whole range of a cosine and a line at zero; say so where there is no cosine to draw."""
    if not any(np.isfinite(np.asarray(line.get_ydata(), dtype=float)).any() for line in axes.get_lines()):
        axes.text(
            0.5, 0.75, "no cosine: one of the gradients\nis zero at every step", transform=axes.transAxes, ha="center"
        )
    axes.axhline(0, color="black", linewidth=0.8, zorder=1)
    axes.set_ylim(-1, 1)
    axes.set_yticks([-1, -0.5, 0, 0.5, 1])


def switched_off(study: StudyFile) -> str:
    """Say by which setting no gradients of a study were measured; empty where some were to be."""
    sections = [run.spec.gradients for run in study.runs]
    if any(section.backward == BY_TRL for section in sections):
        return "not measured: gradients.backward is trl"
    return "" if any(section.every for section in sections) else "not measured: gradients.every is 0"


def why_not_measured(study: StudyFile) -> str:
    """Say why a study has no gradient similarities."""
    if len(study.components) < 2:
        return "nothing to compare: the study has one component"
    return switched_off(study) or "not measured: no run reached a step that was to be measured"


def precision_note(study: StudyFile) -> str:
    """Say in which precision gradients were computed: TRL trains in bfloat16 on a GPU unless told otherwise."""
    rough = {run.spec.training.get("bf16", run.spec.gpus > 0) for run in study.runs}
    names = ["float32"] * (False in rough) + ["bfloat16"] * (True in rough)
    return f"Gradients computed in {' and '.join(names)}."


def folding_note(folding_error: pd.Series) -> str:
    """Say how exact cosines are where large parameters are folded; nothing where none was."""
    largest = folding_error.max()
    if not largest > 0:
        return ""
    return (
        " Products between micro-batches or processes are of folded sums: a cosine of one step has a standard error of "
        f"at most {largest:.1g} from that."
    )


@rc_context(STYLE)
def similarity_steps(similarity_by_step: pd.DataFrame, study: StudyFile) -> Figure:
    """One panel per pair of components: cosine over all parameters, by arm."""
    heading = "Gradient similarity of components over training"
    table = alone(similarity_by_step[similarity_by_step["layer"] == ALL_LAYERS])
    if table.empty:
        return page_of_words(heading, why_not_measured(study))
    pairs = list(combinations(study.components, 2))
    figure, rows = curve_panels(study, len(pairs), height=2.2)
    for row, pair in zip(rows, pairs, strict=True):
        cosines = thinned(of_pair(table, *pair), "cosine", MOST_POINTS)
        for panel, arms in zip(row, arm_groups(study), strict=True):
            draw_arms(panel, cosines, study, arms, "step", "cosine")
            cosine_axis(panel)
            panel_title(panel, " · ".join(pair), study, arms)
            step_axis(panel, table["step"])
        row[0].set_ylabel("cosine of gradients")
    width = steps_per_point(table["step"], MOST_POINTS)
    note = (
        f"{seeds_note(study, width)} Gaps: a component's gradient is zero in every seed, so that it has no direction. "
        f"{precision_note(study)}{folding_note(table['folding_error'])}"
    )
    finish(figure, study, heading, note)
    return figure
