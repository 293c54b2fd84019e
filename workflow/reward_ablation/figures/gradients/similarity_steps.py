"""Figure: gradient similarity of components across prompts, over training."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t as student

from reward_ablation.analysis.reading import read_rows
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.config.sections.training import BY_TRL
from reward_ablation.figures.elements.curves import Row, add_arm_legend, curve_panels, draw_steps, seeds_note, thinned
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import arm_looks, draw_points, page_of_words, round_ticks, zero_line
from reward_ablation.gram.similarity import ALL_LAYERS

#: Most points of a curve. The similarity at one step is mostly noise, so neighbouring steps are averaged.
MOST_POINTS = 20

#: Column and label of the part that is drawn: the part of a cosine from completions of different prompts. The cosine
#: itself is mostly each completion with itself. This is the correlation of two advantages, whatever the model.
PART, LABEL = "cross_prompt", "similarity across prompts"

#: Smallest range of the y axis on either side of zero.
LEAST_RANGE = 0.1

#: Words in a panel of arms whose runs lack one of the two components, or any measured step.
NOT_MEASURED = "not measured in these arms"


def rows_of_single_rewards(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the definition `alone`: a component's gradient as if the component were the only reward.

    An arm has such a gradient for each component that scores it, also at weight 0.
    """
    return table[table["definition"] == "alone"]


def read_single_rewards(path: Path, layers: pc.Expression) -> pd.DataFrame:
    """`rows_of_single_rewards` of some layers of the table similarity_by_step, with the columns that figures draw."""
    labels = ["arm", "layer", "component_a", "component_b", "definition"]
    columns = [*labels, "seed", "step", PART, "folding_error"]
    return read_rows(path, columns, layers & (pc.field("definition") == "alone"), coded=labels)


#: How the figure reads a table that has millions of rows in a large study.
READERS = {"similarity_by_step": partial(read_single_rewards, layers=pc.field("layer") == ALL_LAYERS)}


def of_pair(table: pd.DataFrame, pair: tuple[str, ...]) -> pd.DataFrame:
    """Rows of one pair of components, in either order."""
    return table[table["component_a"].isin(pair) & table["component_b"].isin(pair)]


def pair_panels(
    study: StudyFile, table: pd.DataFrame, height: float, label: str = LABEL
) -> tuple[Figure, list[tuple[Row, pd.DataFrame]]]:
    """Make a figure with panels for each pair of components that some run has.

    Returns the figure, and for each pair its panels and its rows of the table.
    """
    pairs = study.pairs
    figure, rows = curve_panels(study, [" · ".join(pair) for pair in pairs], label, height)
    return figure, [(row, of_pair(table, pair)) for row, pair in zip(rows, pairs, strict=True)]


def similarity_axis(axes: Axes, limit: float, rows: pd.DataFrame, arms: list[str]) -> None:
    """Give a panel a y axis from -limit to limit and a line at zero. A panel without curves says why.

    `rows` are the rows of the panel's pair of components, and `arms` are the arms of the panel.
    """
    if not any(np.isfinite(np.asarray(line.get_ydata(), dtype=float)).any() for line in axes.get_lines()):
        measured = rows["arm"].isin(arms).any()
        words = "no cosine: one of the gradients\nis zero at every step" if measured else NOT_MEASURED
        axes.text(0.5, 0.75, words, transform=axes.transAxes, ha="center")
    zero_line(axes)
    axes.set_ylim(-limit, limit)
    round_ticks(axes.yaxis, 5)


def limit_of(values: pd.DataFrame) -> float:
    """Range of an axis on either side of zero that shows all values, at least `LEAST_RANGE`."""
    return float(1.05 * np.nanmax([LEAST_RANGE, values.astype(float).abs().max().max()]))


def switched_off(study: StudyFile) -> str:
    """Say which setting switched the measurement of gradients off; empty if some run was to measure them."""
    sections = [run.spec.gradients for run in study.runs]
    if any(section.backward == BY_TRL for section in sections):
        return "not measured: gradients.backward is trl"
    return "" if any(section.every for section in sections) else "not measured: gradients.every is 0"


def separates_prompts(table: pd.DataFrame) -> bool:
    """Whether any two completions of different prompts are compared.

    They are not if each micro-batch has one prompt only.
    """
    return bool((table[PART].fillna(0) != 0).any())


#: Words in place of a figure if no two completions of different prompts are compared.
PROMPTS_NOT_SEPARATED = (
    "not known: no two prompts share a micro-batch, so the similarity across prompts cannot be separated"
)


def why_not_measured(study: StudyFile) -> str:
    """Say why a study has no gradient similarities."""
    if len(study.components) < 2:
        return "nothing to compare: the study has one component"
    if not study.pairs:
        return "nothing to compare: no run has two components"
    return switched_off(study) or "not measured: no run reached the first step at which gradients are measured"


def exactness_note(study: StudyFile, folding_error: pd.Series) -> str:
    """Say in which precision gradients were computed, and how exact the cosines are if large parameters were folded.

    TRL trains in bfloat16 on a GPU unless `training.bf16` says otherwise.
    """
    rough = {run.spec.training.get("bf16", run.spec.gpus > 0) for run in study.runs}
    names = ["float32"] * (False in rough) + ["bfloat16"] * (True in rough)
    precision = f"Gradients computed in {' and '.join(names)}."
    largest = folding_error.max()
    if not largest > 0:
        return precision
    return (
        f"{precision} Inner products between micro-batches or processes are of folded sums, from which the cosine of "
        f"one step has a standard error of at most {largest:.1g}."
    )


def leaves_out_zero(mean: np.ndarray, deviation: np.ndarray, count: np.ndarray, confidence: float) -> np.ndarray:
    """Whether Student's t interval of a mean leaves out 0; False for a single value, whose deviation is NaN."""
    quantile = student.isf((1 - confidence) / 2, np.maximum(count - 1, 1))
    return np.abs(mean) > quantile * deviation / np.sqrt(count)


def mark_points(row: Row, of_two: pd.DataFrame, study: StudyFile) -> None:
    """Draw the points of the curves: filled if their interval over seeds leaves out 0, otherwise hollow."""
    by_seed = thinned(of_two, PART, MOST_POINTS).groupby(["arm", "step"])[PART]
    values = by_seed.agg(["mean", "std", "count"]).dropna(subset="mean")
    mean, deviation, count = values.to_numpy(dtype=float).T
    clear = leaves_out_zero(mean, deviation, count, study.confidence)
    look = arm_looks(study)
    for panel, arms in row:
        for line in panel.get_lines():
            line.set_marker("none")
        for arm in arms:
            for hollow in (True, False):
                points = values["mean"][(clear != hollow) & (values.index.get_level_values("arm") == arm)]
                steps = points.index.get_level_values("step")
                draw_points(panel, look[arm], steps, points, hollow=hollow, linestyle="none", markersize=3)


def marks_note(study: StudyFile) -> str:
    """Say what filled and hollow points mean, or that one seed has no interval."""
    if study.seed_counts[1] == 1:
        return "One seed has no interval over seeds, so the figure cannot show which points differ from 0."
    level = f"{100 * study.confidence:g}\u00a0%"
    return (
        f"Filled points: the {level} interval over seeds (Student's t) leaves out 0. Hollow points: the interval "
        "includes 0, or only one seed has a value."
    )


def similarity_steps(similarity_by_step: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each pair of components the similarity across prompts over all parameters, by arm."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    table = rows_of_single_rewards(similarity_by_step[similarity_by_step["layer"] == ALL_LAYERS])
    if table.empty or not separates_prompts(table):
        return page_of_words(why_not_measured(study) if table.empty else PROMPTS_NOT_SEPARATED)
    figure, rows = pair_panels(study, table, height=2.2)
    limit = limit_of(pd.concat(thinned(of_two, PART, MOST_POINTS)[[PART]] for _, of_two in rows if len(of_two)))
    for row, of_two in rows:
        draw_steps(row, of_two, PART, study, table["step"], MOST_POINTS)
        mark_points(row, of_two, study)
        for panel, arms in row:
            similarity_axis(panel, limit, of_two, arms)
    note = (
        "Part of the cosine that comes from completions of different prompts: its noise has mean 0. "
        f"{seeds_note(study, table['step'], MOST_POINTS)} {marks_note(study)} Gaps: one of the gradients is zero in "
        f"every seed and has no direction. {exactness_note(study, table['folding_error'])}"
    )
    add_arm_legend(figure, study, note)
    return figure
