"""Figure: share of training steps that lower a component's expected score."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.gradients.error_rates import FALSE_DISCOVERIES
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend, curve_panels
from reward_ablation.figures.elements.estimates import draw_side_by_side
from reward_ablation.figures.elements.few_arms import reduced_to_shown_arms
from reward_ablation.figures.elements.style import page_of_words, wrapped
from reward_ablation.figures.gradients.what_if import why_no_map


def harm(harm_by_arm: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw for each component the share of steps whose direction lowers its expected score beyond noise."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    if harm_by_arm["estimate"].notna().sum() == 0:
        return page_of_words(why_no_map(study))
    figure, [row] = curve_panels(study, [""], "share of steps", height=2.4)
    for panel, arms in row:
        draw_side_by_side(panel, harm_by_arm, study, arms, "component", study.components)
        names = [wrapped(name, 16) for name in study.components]
        panel.set_xticks(range(len(names)), names, rotation=90 if len(names) > 5 else 0)
        panel.set_ylim(-0.02, max(0.1, 1.1 * harm_by_arm["high"].max()))
    level = f"{100 * study.confidence:g}\u00a0%"
    equal = " (over all steps if seeds have equal shares)" if (harm_by_arm["interval"] == "steps").any() else ""
    note = (
        "A step counts if its inner product with the gradient of the component's expected score, over completions of "
        "different prompts, is below 0 beyond noise. Each step has a test, with at most "
        f"{100 * FALSE_DISCOVERIES:g}\u00a0% false discoveries among the steps of a run (Benjamini and Hochberg). "
        f"Points: mean over seeds of up to {harm_by_arm['steps'].max()} steps. Bars: {level} intervals by Student's t "
        f"over seeds{equal}. A share of 0 means that no single step shows harm, not that no step does harm."
    )
    add_arm_legend(figure, study, note)
    return figure
