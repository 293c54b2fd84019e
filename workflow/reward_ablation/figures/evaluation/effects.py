"""Figure: effect of each component on the metrics, by the design's definition."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import panels
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.forest import Row, forest_panels
from reward_ablation.figures.elements.style import Look, page_of_words

#: Names of the definitions of an effect.
METHODS = {
    "leave_one_out": "all components − without this one",
    "over_control": "this component alone − control",
    "main_effect": "mean difference beside the others",
    "regression": "regression on shares of weights",
    "quadratic_regression": "quadratic regression on shares",
}

#: Look of all components. No arm has this look.
LOOK = Look("black", "solid", "o")


def rows_of(table: pd.DataFrame, study: StudyFile) -> list[Row]:
    """Rows of the figure: a heading with the definition, and the components in the study's order."""
    method, names = table["method"].iloc[0], set(table["component"])
    components = [component for component in study.components if component in names]
    return [Row(METHODS.get(method, method)), *(Row(name, LOOK, name) for name in components)]


def effects(component_effects: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the effects of the components: a row of panels per data set and mode, and a panel per metric of `panels`."""
    table = component_effects[component_effects["metric"].isin(panels(study))]
    if table.empty:
        return page_of_words("no effects: the arms do not allow those of the study's design")
    table, family = table.assign(key=table["component"]), "the components in a panel"
    return forest_panels(table, study, rows_of(table, study), "effect on", family)
