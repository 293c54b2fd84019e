"""Figure: observed change of each component, against the first-order prediction and a rule without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.curves import add_arm_legend, curve_panels
from reward_ablation.figures.elements.few_arms import DARK, reduced_to_shown_arms, rows_of_others
from reward_ablation.figures.elements.style import arm_looks, draw_points, page_of_words, zero_line
from reward_ablation.figures.gradients.what_if import why_no_map

#: Opacity of the changes of components that the arm rewards: these need no prediction.
FAINT = 0.25


def what_if_check(
    what_if_check: pd.DataFrame, what_if_agreement: pd.DataFrame, evaluation_by_arm: pd.DataFrame, study: StudyFile
) -> Figure:
    """Draw for each component the observed changes against the predictions of the map and of the score covariance."""
    study = reduced_to_shown_arms(study, evaluation_by_arm)
    if what_if_check["predicted"].notna().sum() == 0:
        one_arm = "nothing to compare: predictions come from other arms' runs, and the study has one arm"
        return page_of_words(one_arm if len(study.arms) < 2 else why_no_map(study))
    predicted = set(what_if_check.loc[what_if_check["predicted"].notna(), "component"])
    names = [name for name in study.components if name in predicted]
    figure, rows = curve_panels(study, names, "observed change of the score", height=2.4)
    largest = {rule: what_if_check[rule].abs().max() or 1.0 for rule in ("predicted", "covariance")}
    for row, component in zip(rows, names, strict=True):
        of_component = what_if_check[what_if_check["component"] == component].set_index("arm")
        for panel, arms in row:
            hidden = rows_of_others(of_component.reset_index(), study)
            if len(hidden):
                panel.plot(
                    hidden["predicted"] / largest["predicted"],
                    hidden["observed"],
                    ".",
                    color=DARK,
                    markersize=2,
                    zorder=0.5,
                )
            for arm in [arm for arm in arms if arm in of_component.index]:
                draw_arm(panel, pd.Series(of_component.loc[arm]), arm, study, largest)
            zero_line(panel)
            zero_line(panel, vertical=True)
            panel.set_xlim(-1.15, 1.15)
            panel.set_xlabel("predicted change (largest = 1)")
    level = f"{100 * study.confidence:g}\u00a0%"
    note = (
        "Filled: prediction of the map, the first-order effect of the arm's weights at early steps of the other arms' "
        "runs. Hollow: prediction of the covariance of scores at the same steps, which needs no gradient. Observed "
        "change: mean of the last tenth of the steps minus mean of the first tenth. Bars, which may leave the panel: "
        f"{level} intervals by Student's t over seeds. Faint: the arm rewards the component, so a rise needs no "
        "prediction. "
        f"{agreement(what_if_agreement)}"
    )
    methods = study.arms_with_methods
    if methods:
        note += f" Without a prediction, because a method combines their components: {', '.join(methods)}."
    unpredicted = [
        arm
        for arm in study.arm_names
        if arm not in methods and what_if_check.loc[what_if_check["arm"] == arm, "predicted"].isna().all()
    ]
    if unpredicted:
        note += (
            f" Without a prediction, because no other arm's runs say what these weights do: {', '.join(unpredicted)}."
        )
    add_arm_legend(figure, study, note, dots=True)
    return figure


def draw_arm(axes: Axes, row: pd.Series, arm: str, study: StudyFile, largest: dict[str, float]) -> None:
    """Draw both predictions of one arm at its observed change. `largest` is the largest prediction of each rule."""
    y, low, high = row[["observed", "observed_low", "observed_high"]].to_numpy(dtype=float)
    style: dict[str, Any] = {"elinewidth": 0.9, "alpha": 1.0 if row["rewarded"] == 0 else FAINT}
    for rule, most in largest.items():
        hollow = rule == "covariance"
        x, *across = row[[rule, f"{rule}_low", f"{rule}_high"]].to_numpy(dtype=float) / most
        along = None if hollow else (low, high)
        draw_points(axes, arm_looks(study)[arm], x, y, across=across, along=along, hollow=hollow, label=arm, **style)


def agreement(what_if_agreement: pd.DataFrame) -> str:
    """Say how well the map ranks the changes of components that the arms do not reward.

    The rank correlation is given only if the map is better than the rules without gradients beyond noise.
    """
    rows = what_if_agreement[what_if_agreement["cells"] == "unrewarded"].set_index("rule")
    numbers = rows[["estimate", "low", "high", "ahead_low"]].astype(float)
    if rows.empty or np.isnan(numbers.loc["predicted"].iloc[0]):
        return "Too few changes of components that the arm does not reward to compare predictions."
    covariance = float(numbers["estimate"]["covariance"])
    where = f"On the {rows['changes'].max():.0f} changes of components that the arm does not reward"
    estimate, low, high, ahead_low = numbers.loc["predicted"].to_numpy()
    if ahead_low > 0:
        words = f"{where}, the map has a rank correlation of {estimate:.2f} ({low:.2f} to {high:.2f})"
        return f"{words}, and the covariance of {covariance:.2f}.".replace("-", "\u2212")
    return f"{where}, the map is not better than the covariance of scores beyond noise."
