"""Figures of the evaluation: of final models, of differences and effects, and of the models kept during training.

`figures.__main__` calls the functions that have the name of a figure in `figures.catalogue`, with its tables.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.by_level import FEWEST, FEWEST_OF_ONE_SEED
from reward_ablation.analysis.evaluation.effects import NO_COMMON_SEED, lack_a_common_seed
from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of, panels
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import counted, number
from reward_ablation.figures.curves import arm_groups, draw_steps, numbers_of, seeds_note
from reward_ablation.figures.estimates import (
    COLUMN_WIDTH,
    Row,
    arrow_note,
    base_legend,
    base_note,
    component_names,
    datasets_and_modes,
    dot_handles,
    draw_rows,
    flag_note,
    forest,
    forest_legend,
    forest_panels,
    interval_note,
    limits,
    name_forest,
    name_rows,
    panel_title,
    row_height,
    select,
    share_axis,
    shown_metrics,
    weight_matrix,
)
from reward_ablation.figures.few_arms import others_note, reduced_to_shown_arms, rows_of_others, with_others
from reward_ablation.figures.findings import clearest, listed, lowest_and_highest
from reward_ablation.figures.style import (
    NAME_CHARACTER,
    Look,
    arm_handles,
    arm_looks,
    beside,
    figure_width,
    legend_below,
    page_of_words,
    round_ticks,
    rows_of_panels,
    title,
    with_escapes,
    wrapped,
)
from reward_ablation.study.primary import Contrast

#: Most contrasts in the primary figure, and most rows of the figure by level.
MOST_CONTRASTS, MOST_ROWS = 40, 30

#: Names of the definitions of an effect.
METHODS = {
    "leave_one_out": "all components − without this one",
    "over_control": "this component alone − control",
    "main_effect": "mean difference beside the others",
    "regression": "regression on shares of weights",
    "quadratic_regression": "quadratic regression on shares",
}

#: What the bars of primary contrasts are in a sequential study, whose looks are tests after planned numbers of seeds.
AT_LOOKS = "Repeated confidence intervals at each contrast's last look, with its seeds. "

#: Look of all components. No arm has this look.
COMPONENT_LOOK = Look("black", "solid", "o")


def evaluation(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a row of panels per data set and mode: the main metric, the other metrics, and tokens last."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    names = with_others(study, study.arm_names)
    rows = datasets_and_modes(evaluation_by_arm, study)
    metrics = shown_metrics(study)
    height, widths = row_height(names) * len(names) + 0.75, [5.0, *[3.0] * (len(metrics) - 1)]
    figure, grid = rows_of_panels(len(rows), len(metrics), height, ratios=widths, sharey="row")
    for of_row, (dataset, mode, questions) in zip(grid, rows, strict=True):
        for panel, (metric, label) in zip(of_row, metrics.items(), strict=True):
            draw_rows(panel, select(evaluation_by_arm, dataset, mode, metric), study, names)
            panel.set_xlabel(label)
            share_axis(panel, study, metric)
        name_rows(of_row[0], names)
        panel_title(of_row[0], f"{dataset}, {mode}: {questions:,} questions")
    base_legend(figure, evaluation_by_arm[evaluation_by_arm["metric"].isin(metrics)], study)
    return figure


def arms(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the main metric beside the weights, best arm first."""
    few = reduced_to_shown_arms(study, evaluation_by_arm)
    figure = draw_table(evaluation_by_arm, few)
    before = f"Best arm first, by {name_of(study.main_metric)} in the first panel. "
    base_legend(figure, evaluation_by_arm[evaluation_by_arm["metric"] == study.main_metric], few, before)
    where, rows_of_first = first_kind(evaluation_by_arm, study)
    named = rows_of_first.set_index("arm").rename(index=marked_where_hidden(few))
    found = lowest_and_highest(named, metrics_of_study(study).limits(study.main_metric))
    title(figure, f"in {where}, {found}" if found else "")
    return figure


def marked_where_hidden(few: StudyFile) -> dict[str, str]:
    """Names for a title by arm: that of an arm which the figure does not show says so."""
    hidden = {run.arm for run in few.runs}.difference(few.arm_names)
    return {arm: f"{arm} (not shown)" for arm in hidden}


def first_kind(table: pd.DataFrame, study: StudyFile) -> tuple[str, pd.DataFrame]:
    """The main metric in the first data set and mode, in words, and its rows of a table."""
    dataset, mode, _ = datasets_and_modes(table, study)[0]
    rows = table[(table["dataset"] == dataset) & (table["mode"] == mode) & (table["metric"] == study.main_metric)]
    return f"{name_of(study.main_metric)} on {dataset} ({mode})", rows


def draw_table(evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a row per arm, best first: name, weights, and main metric by data set and mode; many components widen it."""
    kinds = datasets_and_modes(evaluation_by_arm, study)
    first, mode, _ = kinds[0]
    estimates = select(evaluation_by_arm, first, mode, study.main_metric)["estimate"]
    ordered = sorted(study.arm_names, key=lambda arm: estimates[arm], reverse=study.main_is_better_high)
    names = with_others(study, ordered)
    widths = [COLUMN_WIDTH * len(study.components), *[1.5] * len(kinds)]
    height = row_height(names) * len(names)
    lines = "\n".join(component_names(study)).split("\n")
    above = 1.5 + NAME_CHARACTER * max(0, max(map(len, lines)) - 11)
    figure, [[matrix, *grid]] = rows_of_panels(1, 1 + len(kinds), height, above=above, ratios=widths, sharey=True)
    if beside(2) == 2:
        figure.set_figwidth(max(figure_width(), 2.2 + COLUMN_WIDTH * len(study.components) + 1.2 * len(kinds)))
    else:
        figure.set_figheight(figure.get_figheight() + 0.75 * len(kinds))
    weight_matrix(matrix, study, names)
    for panel, (dataset, mode, _) in zip(grid, kinds, strict=True):
        draw_rows(panel, select(evaluation_by_arm, dataset, mode, study.main_metric), study, names)
        panel.tick_params(axis="y", length=0)
        panel.set_title(wrapped(f"{dataset},\n{mode}", 18), loc="left")
        panel.set_xlabel(name_of(study.main_metric))
        share_axis(panel, study, study.main_metric)
    return figure


def primary(paired_differences: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the first `MOST_CONTRASTS` primary contrasts, or in a study without contrasts the primary metric itself."""
    if study.primary_not_shown:
        return page_of_words(study.primary_not_shown)
    question, look = study.primary, arm_looks(study)
    table = paired_differences[paired_differences["family"] == "primary"]
    every = table.assign(key=table["arm"] + " − " + table["baseline"])
    table, count = every.head(MOST_CONTRASTS), len(every)
    rows = [
        Row(key + seeds_and_decision(study, arm, against), look[arm], key)
        for key, arm, against in zip(table["key"], table["arm"], table["baseline"], strict=True)
    ]
    names = [row.label for row in rows] or study.arm_names
    figure, [[panel]] = rows_of_panels(1, 1, row_height(names) * len(names), above=1.1)
    where = (evaluation_by_arm[["dataset", "mode"]] == [question.dataset, question.mode]).all(axis=1)
    questions = int(evaluation_by_arm.loc[where, "questions"].max())
    panel_title(panel, f"{question.dataset}, {question.mode}: {questions:,} questions")
    name_rows(panel, names)
    if table.empty:
        metric = select(evaluation_by_arm, question.dataset, question.mode, question.metric)
        draw_rows(panel, metric, study, names)
        share_axis(panel, study, question.metric)
        panel.set_xlabel(name_of(question.metric))
        legend_below(figure, [], f"{base_note(study)}{' Dashed line: base model.' * study.has_base}{flag_note(metric)}")
        return figure
    panel.set_xlim(limits(table))
    effects = table.set_index("key")
    forest(panel, rows, effects, effects["p_holm"] < level_of(study.confidence))
    panel.set_xlabel(f"difference in {name_of(question.metric)}")
    shown = f" Shown: the first {len(rows)} of {count} contrasts." if count > len(rows) else ""
    before, detail = (AT_LOOKS, "") if study.has_looks else ("", ", uncorrected")
    forest_legend(figure, table, study, study.primary_family, before, shown, detail)
    limits_of_metric, level = metrics_of_study(study).limits(question.metric), level_of(study.confidence)
    title(figure, clearest(every.set_index("key"), limits_of_metric, level))
    return figure


def seeds_and_decision(study: StudyFile, arm: str, against: str) -> str:
    """Seeds and decision of a primary contrast in a sequential study; empty before its first look, and for others."""
    record, contrast = study.sequential, Contrast(arm=arm, against=against)
    decided = record.decision(contrast) if record is not None and record.in_force else None
    if decided is None:
        return ""
    return f"\n{counted(decided[1].seeds or decided[0].seeds, 'seed')}, {decided[1].decision}"


def differences(paired_differences: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the differences, below the arm compared with: panels per data set and mode, and of `shown_metrics`."""
    table = paired_differences[paired_differences["metric"].isin(panels(study))]
    if table.empty:
        return page_of_words("nothing to compare: the study has one arm")
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    look = arm_looks(study)
    table = table.assign(key=table["arm"] + " " + table["baseline"])
    rows: list[Row] = []
    for against, of_arm in table.groupby("baseline", sort=False):
        role = {study.baseline: ", the baseline", study.control: ", the control"}.get(str(against), "")
        rows.append(Row(f"against {against}{role}"))
        names = [arm for arm in look if arm in set(of_arm["arm"])]
        rows += [
            Row(arm + seeds_and_decision(study, arm, str(against)), look[arm], f"{arm} {against}") for arm in names
        ]
        hidden = tuple(dict.fromkeys(rows_of_others(of_arm, study)["key"]))
        rows += [Row(f"{len(hidden):,} other arms", others=hidden)] * bool(hidden)
    before = f"Arms are {study.pairing}. "
    if study.has_looks:
        before += f"Primary panel: {AT_LOOKS[0].lower()}{AT_LOOKS[1:]}Seeds and decisions below names: of this panel. "
    family = f"{study.primary_family}, and over the other rows of a panel with the same reference"
    question = (study.primary.dataset, study.primary.mode, study.primary.metric)
    undeclared = (table[["dataset", "mode", "metric"]] == [*question]).all(axis=1) & (table["family"] != "primary")
    if undeclared.any():
        pairs = listed(list(table.loc[undeclared, "arm"] + " − " + table.loc[undeclared, "baseline"]))
        before += f"Not declared, and so exploratory, in the primary panel: {pairs}. "
    return forest_panels(table, study, rows, "difference in", family, before, question)


def effects(component_effects: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the effects of components, in order, below their definition: panels as of `differences`."""
    table = component_effects[component_effects["metric"].isin(panels(study))]
    if table.empty:
        of_design = "the arms do not allow those of the study's design"
        return page_of_words(f"no effects: {NO_COMMON_SEED if lack_a_common_seed(study) else of_design}")
    method, names = table["method"].iloc[0], set(table["component"])
    components = [component for component in study.components if component in names]
    rows = [Row(METHODS.get(method, method)), *(Row(name, COMPONENT_LOOK, name) for name in components)]
    table = table.assign(key=table["component"])
    figure = forest_panels(table, study, rows, "effect on", "the components in a panel")
    where, of_first = first_kind(table, study)
    limits = metrics_of_study(study).limits(study.main_metric)
    found = clearest(of_first.set_index("key"), limits, level_of(study.confidence))
    title(figure, f"for {where}, {found}" if found else "")
    return figure


def by_level(table: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the difference at the questions of each level or subject, and how far this is from that at all others."""
    if table.empty:
        none = f"The primary data set has no two levels or subjects with {FEWEST} questions or more"
        none += f" ({FEWEST_OF_ONE_SEED} where arms have one seed)."
        return page_of_words(study.primary_not_shown or none)
    look, count = arm_looks(study), len(table)
    keys = [" ".join(map(str, labels)) for labels in table[["arm", "baseline", "by", "group"]].to_numpy()]
    table = table.assign(key=keys, flagged_arms=None).head(MOST_ROWS)
    rows = []
    for (arm, baseline), of_contrast in table.groupby(["arm", "baseline"], sort=False):
        groups, questions = of_contrast["group"].map(with_escapes), of_contrast["questions"].map("{:,}".format)
        labels = of_contrast["by"] + " " + groups + ": " + questions
        rows.append(Row(f"{arm} − {baseline}"))
        rows += [Row(label, look[str(arm)], key) for label, key in zip(labels, of_contrast["key"], strict=True)]
    names = [row.label for row in rows]
    figure, [[left, right]] = rows_of_panels(1, 2, row_height(names) * len(names) + 0.6, sharey=True)
    own = table.set_index("key")
    rest = own.assign(estimate=own["from_rest"], low=own["from_rest_low"], high=own["from_rest_high"])
    level = level_of(study.confidence)
    for panel, values, filled, label in (
        (left, own, (own["low"] > 0) | (own["high"] < 0), f"difference in {name_of(study.primary.metric)}"),
        (right, rest, rest["p_holm"] < level, "minus that at all other questions"),
    ):
        panel.set_xlim(limits(values))
        forest(panel, rows, values, filled)
        panel.set_xlabel(label)
    for panel in (left, right)[:: beside(2)]:
        name_forest(panel, rows)
    panel_title(left, f"{study.primary.dataset}, {study.primary.mode}")
    shown = f" Shown: the first {len(table)} of {count} rows." if count > len(table) else ""
    note = (
        f"{interval_note(study, of_all=' and the questions of the row', detail=', uncorrected')} Numbers: questions. "
        f"Left: filled where the interval leaves out 0. Right: whether the difference depends on the row's questions; "
        f"Holm's correction over the rows of one comparison and kind.{arrow_note(figure)}{shown}"
    )
    handles = dot_handles(f"interval leaves out 0, or Holm p < {level:g}", "not shown to differ from 0")
    legend_below(figure, handles, note)
    return figure


def learning_curves(table: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw a line for each arm and seed: a row per data set, mode and group of arms, a panel per metric."""
    if not study.keep_models:
        return page_of_words(
            "No models were kept during training. Set keep_models in the config to keep one at every n-th step."
        )
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    groups = arm_groups(study)
    rows = [(kind, group) for kind in datasets_and_modes(table, study) for group in groups]
    metrics = shown_metrics(study)
    figure, grid = rows_of_panels(len(rows), len(metrics), 1.75, sharex=True)
    for of_row, ((dataset, mode, questions), group) in zip(grid, rows, strict=True):
        values = table[(table["dataset"] == dataset) & (table["mode"] == mode)]
        for panel, (metric, label) in zip(of_row, metrics.items(), strict=True):
            draw_steps([(panel, group)], values[values["metric"] == metric], "value", study, table["step"])
            panel.set_ylabel(label)
            round_ticks(panel.yaxis, 5)
        shown_arms = f"; {numbers_of(group, study)}" if len(groups) > 1 else ""
        panel_title(of_row[0], f"{dataset}, {mode}: {questions:,} questions{shown_arms}")
    for panel in [panel for of_row in grid for panel in of_row][: -beside(len(metrics))]:
        panel.set_xlabel("")
    note = f"{seeds_note(study, table, 'value')} Step 0: the base model; last step: the final model."
    legend_below(figure, arm_handles(study), note + others_note(study), most_columns=max(6, len(groups)))
    title(figure, after_training(table, study))
    return figure


def after_training(table: pd.DataFrame, study: StudyFile) -> str:
    """The main metric before and after training: of the base model, and of the lowest and the highest arm."""
    where, rows = first_kind(table, study)
    limits = metrics_of_study(study).limits(study.main_metric)
    final = rows[rows["step"] == rows.groupby(["arm", "seed"])["step"].transform("max")]
    of_arms = pd.DataFrame(final.groupby("arm")["value"].agg(estimate="mean", low="min", high="max"))
    base = number(rows.loc[rows["step"] == 0, "value"].mean(), limits)
    found = lowest_and_highest(of_arms.rename(index=marked_where_hidden(study)), limits, "ranges of seeds")
    one = ", with one seed" if study.seed_counts[1] == 1 else ""
    return f"{where} was {base} before training; after it{one}, {found}"
