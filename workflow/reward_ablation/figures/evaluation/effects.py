"""Figure: what each component does, by several methods."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.forest import Row, forest_panels
from reward_ablation.figures.elements.style import Look, page_of_words

#: Methods from top to bottom, with their names in the figure.
METHODS = {
    "main_effect": "main effect",
    "interaction": "interaction",
    "shapley": "Shapley value",
    "leave_one_out": "leave one out",
    "one_at_a_time": "one at a time",
    "over_control": "one at a time, over the control",
    "regression": "regression on weights",
    "quadratic_regression": "quadratic regression",
}

#: Components have a look of their own, which is none of an arm's: all are black circles.
LOOK = Look("black", "solid", "o")


def rows_of(table: pd.DataFrame, study: StudyFile) -> list[Row]:
    """A heading per method, and below it its components in the study's order, then its interactions."""
    rows = []
    for method in [*METHODS, *sorted(set(table["method"]) - set(METHODS))]:
        present = list(dict.fromkeys(table.loc[table["method"] == method, "component"]))
        if present:
            single = [component for component in study.components if component in present]
            others = [component for component in present if component not in single]
            rows.append(Row(METHODS.get(method, method)))
            rows += [Row(name.replace(":", " × "), LOOK, f"{method} {name}") for name in [*single, *others]]
    return rows


def effects(component_effects: pd.DataFrame, study: StudyFile) -> Figure:
    """One row of panels per data set and mode: effect of each component on the metrics of `panels`, by method."""
    table = component_effects[component_effects["metric"].isin(panels(study))]
    if table.empty:
        return page_of_words("none: no two arms differ in one component alone, and weights cannot be regressed on")
    table = table.assign(key=table["method"] + " " + table["component"])
    family = "the components of a method in a panel"
    return forest_panels(table, study, rows_of(table, study), "effect on", family)
