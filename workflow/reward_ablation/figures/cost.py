"""Figure: the hours that training took. `figures.__main__` calls `cost`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import counted
from reward_ablation.figures.estimates import name_rows, row_height
from reward_ablation.figures.few_arms import (
    FROM_EACH_END,
    count_of_others,
    draw_others_in_row,
    others_note,
    reduced_to_ends,
    with_others,
)
from reward_ablation.figures.style import ONE_COLUMN, arm_looks, legend_below, round_ticks, title
from reward_ablation.report.cost.columns import check_complete, hours_text

#: Clocks beside the runs' own: the end of their columns' names, the marker, and the legend entry.
OTHER_CLOCKS = {"_of_jobs": ("|", "clocks of the Slurm jobs"), "_accounted": ("d", "Slurm's accounting")}

#: Style of lost hours.
LOST: dict[str, Any] = {"facecolor": "#303030", "hatch": "////", "edgecolor": "white"}

#: Units of hours: the start of their columns' names, and the label of the axis.
UNITS = {"gpu": "GPU hours", "cpu": "CPU thread hours", "wall": "wall hours"}


def unit_of(cost: pd.DataFrame) -> str:
    """Unit of `UNITS` to show: GPU hours if the study used a GPU, else CPU thread hours if all are known, or wall."""
    if (cost["gpu_hours"] > 0).any():
        return "gpu"
    return "cpu" if cost["cpu_hours"].notna().all() else "wall"


def cost(cost: pd.DataFrame, study: StudyFile) -> Figure:
    """Draw the hours of each arm's runs, in the unit of `unit_of`. The table's last row is that of all arms."""
    unit = unit_of(check_complete(cost, Path("cost.csv")))
    every = cost.set_index("arm").loc[study.arm_names].filter(like=f"{unit}_hours").astype(float)
    study = reduced_to_ends(study, every[f"{unit}_hours"])
    names = with_others(study, study.arm_names)
    hours = every.loc[study.arm_names]
    rows = range(len(study.arms))
    figure = Figure(figsize=(ONE_COLUMN, row_height(names) * len(names) + 0.9))
    axes = figure.subplots()
    if count_of_others(study):
        draw_others_in_row(axes, every.drop(study.arm_names)[f"{unit}_hours"], len(study.arms))
    axes.barh(rows, hours[f"{unit}_hours"], height=0.6, color=[look.colour for look in arm_looks(study).values()])
    handles: list[Artist] = [Patch(facecolor="#a0a0a0", label="the runs' own clocks")]
    lost = hours.get(f"{unit}_hours_lost")
    if lost is not None and (lost > 0).any():
        axes.barh(rows, lost, height=0.6, linewidth=0, **LOST)
        handles.append(Patch(**LOST, label="of these, lost"))
    for ending, (marker, label) in OTHER_CLOCKS.items():
        other = hours.get(f"{unit}_hours{ending}")
        if other is not None and other.notna().any():
            axes.plot(other, rows, marker, color="black", markersize=6, markerfacecolor="white")
            style: dict[str, Any] = {"color": "black", "marker": marker, "markerfacecolor": "white"}
            handles.append(Line2D([], [], linestyle="none", **style, label=label))
    name_rows(axes, names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    round_ticks(axes.xaxis, 5)
    axes.set_xlabel(UNITS[unit])
    runs = counted(int(cost["runs"].iloc[-1]), "run")
    note = f"Sums over the runs of an arm, {runs} in all: measured, not estimated. Evaluations are not counted."
    by = f"most expensive and the {FROM_EACH_END} cheapest"
    legend_below(figure, handles, note + others_note(study, by))
    every_hour = every[f"{unit}_hours"]
    total, (least, most) = cost[f"{unit}_hours"].iloc[-1], (str(every_hour.idxmin()), str(every_hour.idxmax()))
    ends = [f"{arm} ({hours_text(every_hour[arm])})" for arm in (least, most)]
    found = f"{hours_text(total)} {UNITS[unit]}" + (f", from {ends[0]} to {ends[1]}" if least != most else "")
    title(figure, found)
    return figure
