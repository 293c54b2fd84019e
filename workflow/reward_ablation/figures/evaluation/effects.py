"""Figure: effect of each component on the metrics, estimated by several methods."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.forest import Row, forest_panels
from reward_ablation.figures.elements.style import Look, page_of_words

#: Methods in their order from top to bottom, with their names in the figure.
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

#: Look of all components. No arm has this look.
LOOK = Look("black", "solid", "o")


def rows_of(table: pd.DataFrame, study: StudyFile) -> list[Row]:
    """Rows of the figure: for each method a heading, its components in the study's order, and its interactions."""
    rows = []
    for method in [*METHODS, *sorted(set(table["method"]) - set(METHODS))]:
        names = list(dict.fromkeys(table.loc[table["method"] == method, "component"]))
        if names:
            single = [component for component in study.components if component in names]
            interactions = [name for name in names if name not in single]
            rows.append(Row(METHODS.get(method, method)))
            rows += [Row(name.replace(":", " × "), LOOK, f"{method} {name}") for name in [*single, *interactions]]
    return rows


def effects(component_effects: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the effects of the components: a row of panels per data set and mode, and a panel per metric of `panels`."""
    table = component_effects[component_effects["metric"].isin(panels(study))]
    if table.empty:
        return page_of_words("no effects: no two arms differ in one component alone, and a regression is not possible")
    table = table.assign(key=table["method"] + " " + table["component"])
    family = "the components of a method in a panel"
    return forest_panels(table, study, rows_of(table, study), "effect on", family)
