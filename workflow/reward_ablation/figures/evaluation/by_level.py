"""Figure: the primary differences by the level and the subject of the questions."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import dot_handles, interval_note, name_rows, row_height
from reward_ablation.figures.elements.forest import Row, arrow_note, forest, limits
from reward_ablation.figures.elements.style import WIDTH, arm_looks, legend_below, page_of_words

#: Most rows of the figure.
MOST_ROWS = 30


def by_level(table: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw each group's difference, and beside it how far this is from the difference at all other questions."""
    if table.empty:
        return page_of_words("The questions of the primary data set have no levels and no subjects to compare.")
    look = arm_looks(study)
    keys = [" ".join(map(str, labels)) for labels in table[["arm", "baseline", "by", "group"]].to_numpy()]
    table = table.assign(key=keys, flagged_arms=None).head(MOST_ROWS)
    rows = []
    for (arm, baseline), of_contrast in table.groupby(["arm", "baseline"], sort=False):
        labels = of_contrast["by"] + " " + of_contrast["group"] + ": " + of_contrast["questions"].map("{:,}".format)
        rows.append(Row(f"{arm} − {baseline}"))
        rows += [Row(label, look[str(arm)], key) for label, key in zip(labels, of_contrast["key"], strict=True)]
    names = [row.label for row in rows]
    figure = Figure(figsize=(WIDTH, row_height(names) * len(names) + 1.0))
    panels = figure.subplots(1, 2, sharey=True)
    own = table.set_index("key")
    rest = own.assign(estimate=own["from_rest"], low=own["from_rest_low"], high=own["from_rest_high"])
    level = round(1 - study.confidence, 9)
    metric = name_of(study.primary.metric)
    for panel, effects, filled, label in (
        (panels[0], own, (own["low"] > 0) | (own["high"] < 0), f"difference in {metric}"),
        (panels[1], rest, rest["p_holm"] < level, "minus that at all other questions"),
    ):
        panel.set_xlim(limits(effects))
        forest(panel, rows, effects, filled)
        panel.set_xlabel(label)
    name_rows(panels[0], names)
    for text, row in zip(panels[0].get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if row.look is None else "normal")
    panels[0].set_title(f"{study.primary.dataset}, {study.primary.mode}", loc="left")
    shown = f" Shown: the first {len(table)} of {len(keys)} rows." if len(keys) > len(table) else ""
    note = (
        f"{interval_note(study, of_all=' and the questions of the row', detail=', uncorrected')} Numbers: questions. "
        f"Left: filled where the interval leaves out 0. Right: whether the difference depends on the row's questions; "
        f"Holm's correction over the rows of one comparison and kind.{arrow_note(figure)}{shown}"
    )
    legend_below(
        figure, dot_handles(f"interval leaves out 0, or Holm p < {level:g}", "not shown to differ from 0"), note
    )
    return figure
