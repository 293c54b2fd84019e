"""Figures of gradients: similarity of the components' gradients, what trained steps do, and what others would do.

`figures.__main__` calls the functions that have the name of a figure in `figures.catalogue`, with its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.reading import read_rows
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import counted, from_to
from reward_ablation.config.sections.training import BY_TRL
from reward_ablation.figures.curves import Row, add_arm_legend, curve_panels, draw_steps, seeds_note, thinned
from reward_ablation.figures.estimates import Row as ForestRow
from reward_ablation.figures.estimates import (
    arrow_note,
    draw_side_by_side,
    forest,
    limits,
    name_rows,
    over_words,
    row_height,
)
from reward_ablation.figures.few_arms import MOST_ARMS, others_note, reduced_to_shown_arms
from reward_ablation.figures.findings import signs
from reward_ablation.figures.style import (
    arm_looks,
    beside,
    figure_width,
    legend_below,
    page_of_words,
    panel_grid,
    round_ticks,
    title,
    wrapped,
    zero_line,
)
from reward_ablation.gram.similarity import ALL_LAYERS
from reward_ablation.spec.run import ArmSpec

#: Most points of a curve of similarities: one step is mostly noise, so neighbouring steps are averaged.
MOST_POINTS = 20

#: Column and label of the part that is drawn: the part of a cosine from completions of different prompts. The rest
#: of the cosine is mostly each completion with itself, which shows how two advantages correlate, whatever the model.
PART, LABEL = "cross_prompt", "similarity across prompts"

#: Smallest range of the y axis on either side of zero.
LEAST_RANGE = 0.1

#: Words in a panel of arms whose runs lack one of the two components, or any measured step.
NOT_MEASURED = "not measured in these arms"


#: Labels of a row of similarity_by_step.
LABELS = ["arm", "layer", "component_a", "component_b", "definition"]

#: How figures read a table that has millions of rows in a large study: the rows of `single_rewards`, and the columns
#: that are drawn.
READERS = {
    "similarity_by_step": partial(
        read_rows,
        columns=[*LABELS, "seed", "step", PART, "folding_error"],
        where=(pc.field("layer") == ALL_LAYERS) & (pc.field("definition") == "alone"),
        coded=LABELS,
    )
}


def single_rewards(table: pd.DataFrame) -> pd.DataFrame:
    """Rows over all parameters of a component's gradient `alone`, which each arm has that scores it, also at 0."""
    return table[(table["layer"] == ALL_LAYERS) & (table["definition"] == "alone")]


def pair_panels(
    study: StudyFile, table: pd.DataFrame, height: float, label: str = LABEL
) -> tuple[Figure, list[tuple[Row, pd.DataFrame]]]:
    """Make a figure with panels for each pair that some run has; and each pair's panels and rows of the table."""
    figure, rows = curve_panels(study, [" · ".join(pair) for pair in study.pairs], label, height)
    of_pairs = [table[table["component_a"].isin(pair) & table["component_b"].isin(pair)] for pair in study.pairs]
    return figure, list(zip(rows, of_pairs, strict=True))


def similarity_axis(axes: Axes, limit: float, rows: pd.DataFrame, arms: list[str]) -> None:
    """Give a panel a y axis from -limit to limit and a line at zero. A panel without curves says why."""
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
    sections = [run.spec.gradients for run in study.runs if isinstance(run.spec, ArmSpec)]
    if any(section.backward == BY_TRL for section in sections):
        return "not measured: gradients.backward is trl"
    return "" if any(section.every for section in sections) else "not measured: gradients.every is 0"


def why_not_measured(study: StudyFile) -> str:
    """Say why a study has no gradient similarities."""
    if len(study.components) < 2:
        return "nothing to compare: the study has one component"
    if not study.pairs:
        return "nothing to compare: no run has two components"
    return switched_off(study) or "not measured: no run reached the first step at which gradients are measured"


def exactness_note(study: StudyFile, folding_error: pd.Series) -> str:
    """Precision of gradients (TRL trains in bfloat16 on a GPU by default), and the error of folded cosines, if any."""
    specs = [run.spec for run in study.runs]
    rough = {spec.training.get("bf16", spec.gpus > 0) for spec in specs if isinstance(spec, ArmSpec)}
    names = ["float32"] * (False in rough) + ["bfloat16"] * (True in rough)
    precision = f"Gradients computed in {' and '.join(names)}."
    largest = folding_error.max()
    if not largest > 0:
        return precision
    return (
        f"{precision} Inner products between micro-batches or processes are of folded sums, from which the cosine of "
        f"one step has a standard error of at most {largest:.1g}."
    )


def similarity_steps(similarity_by_step: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each pair of components the similarity across prompts over all parameters, by arm."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    table = single_rewards(similarity_by_step)
    if table.empty:
        return page_of_words(why_not_measured(study))
    if not (table[PART].fillna(0) != 0).any():  # each micro-batch has one prompt only
        return page_of_words(
            "not known: no two prompts share a micro-batch, so the similarity across prompts cannot be separated"
        )
    figure, rows = pair_panels(study, table, height=2.2)
    limit = limit_of(pd.concat(thinned(of_two, PART, MOST_POINTS)[[PART]] for _, of_two in rows if len(of_two)))
    for row, of_two in rows:
        draw_steps(row, of_two, PART, study, table["step"], MOST_POINTS)
        for panel, arms in row:
            similarity_axis(panel, limit, of_two, arms)
    note = (
        "Part of the cosine that comes from completions of different prompts: its noise has mean 0. "
        f"{seeds_note(study, table, PART, MOST_POINTS)} Gaps: one of the gradients is zero in "
        f"every seed and has no direction. {exactness_note(study, table['folding_error'])}"
    )
    add_arm_legend(figure, study, note)
    return figure


#: Estimates with their names below a panel. The first two are unbiased: no completion is compared with itself.
PARTS = {
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
    return [part for part in PARTS if part in known or part not in ("across_blocks", "split_halves")]


def part_axis(axes: Axes, parts: list[str]) -> None:
    """Name the parts on the x axis, and put the unbiased estimates on grey."""
    if len(parts) > 4:  # horizontal names would run into each other
        axes.set_xticks(range(len(parts)), [PARTS[part] for part in parts], rotation=90)
    else:
        axes.set_xticks(range(len(parts)), [PARTS[part].replace(" ", "\n") for part in parts])
    axes.axvspan(-0.5, parts.index("cross_prompt") + 0.5, color="#f0f0f0", linewidth=0, zorder=0)


def similarity_parts(similarity_by_arm: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each pair of components the unbiased estimates over all parameters, then the cosine and its parts."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    estimates = single_rewards(similarity_by_arm)
    if estimates.empty:
        return page_of_words(why_not_measured(study))
    parts = shown_parts(estimates)
    shown = estimates[["estimate"]]
    limit = max(min(1.05, limit_of(1.5 * shown)), limit_of(shown))  # a part of a cosine may exceed 1
    figure, rows = pair_panels(study, estimates, height=2.2 if len(parts) <= 4 else 2.8, label="similarity")
    for row, of_pair in rows:
        for panel, arms in row:
            draw_side_by_side(panel, of_pair, study, arms, "part", parts)
            similarity_axis(panel, limit, of_pair, arms)
            part_axis(panel, parts)
    counts = estimates.loc[estimates["estimate"].notna(), "seeds"].astype(int)  # of what is drawn
    fewest, most = min(counts, default=0), max(counts, default=0)
    seeds = "the one seed" if most == 1 else from_to(fewest, most, "seed")
    between = ", between batches (micro-batches or processes)" if "across_blocks" in parts else ""
    halves = "Split halves: cosine of the expected gradients, if their norms are resolved. " * ("split_halves" in parts)
    note = (
        f"On grey: estimates that noise does not bias. {halves}Across prompts: part of the plain cosine from "
        "completions of different prompts. The plain cosine is the sum of these parts: across prompts, self (each "
        f"completion with itself, which follows from the advantages alone), same prompt{between}. "
        f"{'A part may exceed 1. ' * bool(limit > 1.05)}The sign of the plain cosine alone says nothing. "
        f"Bars may leave the panel. Points: over the measured steps "
        f"({estimates['steps'].max()}), mean over {seeds}. Bars: "
        f"{100 * study.confidence:g}\u00a0% interval ({over_words(estimates['interval'])}). "
        f"{exactness_note(study, estimates['folding_error'])}"
    )
    add_arm_legend(figure, study, note)
    across = estimates[estimates["part"] == PART]
    pairs = across["component_a"].astype(str) + " · " + across["component_b"].astype(str)
    found = signs(across, pairs)
    title(figure, f"across prompts, {found}" if found else "")
    return figure


def row_panels(panels: Sequence[tuple[str, pd.DataFrame, float]], rows: list[ForestRow], label: str = "") -> Figure:
    """Make panels of a title, estimates by arm, and a value; filled points have intervals that leave the value out."""
    labels, columns = [row.label for row in rows], beside(min(3, len(panels)))
    headings = [wrapped(heading, 24) for heading, *_ in panels]
    height = row_height(labels) * len(labels) + 0.75 + 0.13 * max(heading.count("\n") for heading in headings)
    figure = Figure(figsize=(figure_width(), ceil(len(panels) / columns) * height + 0.3))
    grid = panel_grid(figure, len(panels), columns)
    for number, (panel, heading, (_, effects, value)) in enumerate(zip(grid, headings, panels, strict=True)):
        panel.set_xlim(limits(effects, value))
        filled = (effects["low"] > value) | (effects["high"] < value)
        forest(panel, rows, effects.assign(flagged_arms=None), filled, value)
        panel.set_title(heading, loc="left")
        panel.set_xlabel(label)
        name_rows(panel, labels if number % columns == 0 else [""] * len(labels))
        round_ticks(panel.xaxis, 4)
    return figure


#: Look of the word beside a component that the arm does not train on.
TRACKED: dict[str, Any] = {"fontsize": 7, "color": "#404040", "ha": "right", "va": "bottom"}


def alignment(table: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a panel for each component, and in it the mean effect of each arm's steps with its interval."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    if table["estimate"].notna().sum() == 0:
        return page_of_words(
            switched_off(study)
            or "the stored Gram matrices do not say what single completions contribute: rewards are on some tokens "
            "only, rollouts are clipped, or no two prompts share a micro-batch"
        )
    look = arm_looks(study)
    hidden = tuple(arm for arm in table["arm"].unique() if arm not in look)
    rows = [*(ForestRow(arm, of_arm, arm) for arm, of_arm in look.items())]
    rows += [ForestRow(f"{len(hidden):,} other arms", others=hidden)] * bool(hidden)
    known = table.dropna(subset="estimate")
    of_components = [known[known["component"] == component].set_index("arm") for component in study.components]
    panels = [(name, effects, 0.0) for name, effects in zip(study.components, of_components, strict=True)]
    figure = row_panels(panels, rows, "score per unit\nof the step's length")
    trained_on = {arm.name: study.trained_on(arm) for arm in study.arms}
    for panel, component, effects in zip(figure.axes, study.components, of_components, strict=True):
        for row, arm in enumerate(look):
            if arm in effects.index and component not in trained_on[arm]:
                panel.annotate("tracked", (1, row), (0, 1), ("axes fraction", "data"), "offset points", **TRACKED)
    note = (
        "Filled: the interval leaves out 0. Tracked: the arm does not train on the component. Right of 0, a small step "
        "in the direction that the arm trained raises the component's expected score on prompts that the step did not "
        f"see; left of 0 it lowers it. Points: mean over {table['steps'].max()} measured steps or fewer. "
        f"Bars: {100 * study.confidence:g}\u00a0% intervals by {over_words(table['interval'])}.{arrow_note(figure)}"
    )
    legend_below(figure, [], note + others_note(study))
    title(figure, signs(table, table["component"]))
    return figure


#: Offline methods: most arms in the figure.
MOST_METHODS = 24


def methods_offline(table: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw cosine, length and effects of the step of each arm's combination beside the baseline's trained step."""
    if table["estimate"].notna().sum() == 0:
        not_stored = "the baseline's stored Gram matrices do not say which steps other combinations would have taken"
        return page_of_words(switched_off(study) or not_stored)
    known = [name for name in study.arm_names if (table["method"] == name).any()]
    arms = [name for name in reduced_to_shown_arms(study, evaluation_by_arm).arm_names if name in known][:MOST_METHODS]
    by_method = table.set_index("method")
    cosines, lengths = (by_method[by_method["quantity"] == quantity] for quantity in ("cosine", "length"))
    panels = [("cosine to the trained step", cosines, 1.0), ("length relative to the trained step", lengths, 1.0)]
    gains = by_method[by_method["quantity"] == "gain"]
    panels += [
        (f"effect on {name} minus the trained step's", gains[gains["component"] == name], 0.0)
        for name in study.components
        if (gains["component"] == name).any()
    ]
    look = arm_looks(study)
    figure = row_panels(panels, [ForestRow(arm, look[arm], arm) for arm in arms])
    level = f"{100 * study.confidence:g}\u00a0%"
    note = (
        f"Completions and policy: {study.baseline}, {counted(int(table['seeds'].max()), 'seed')}, up to "
        f"{int(table['steps'].max())} measured steps of each seed; another policy would have sampled other "
        "completions. Effects: to first order, per unit of a step's length, on other prompts. Bars: intervals "
        f"({level}, {over_words(table['interval'])}). Filled: the interval leaves out the trained step's value."
        f"{rank_note(table)}{arrow_note(figure)}"
    )
    if len(known) > len(arms):
        chosen = "first" if len(study.arms) <= MOST_ARMS else "best and worst"
        note += f" Shown: the {chosen} {len(arms)} of {len(known)} arms."
    legend_below(figure, [], note)
    return figure


def rank_note(table: pd.DataFrame) -> str:
    """Say whether the arms' weights alone put them in the same order as the computed gains; empty if not known."""
    ranks = [
        f"{component} {of_component['by_weights'].corr(of_component['estimate'], method='spearman'):.2f}"
        for component, of_component in table[table["quantity"] == "gain"].groupby("component", sort=False)
        if of_component["by_weights"].nunique() > 1 and of_component["estimate"].nunique() > 1
    ]
    rule = "Rank correlation of these differences with each component's share of the weights, a rule without gradients"
    return f" {rule}: {', '.join(ranks)}.".replace(" -", " −") if ranks else ""
