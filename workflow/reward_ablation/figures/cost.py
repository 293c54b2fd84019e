"""Figure: what training cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.cost.table import complete
from reward_ablation.figures.elements.estimates import name_rows, row_height
from reward_ablation.figures.elements.style import ONE_COLUMN, STYLE, legend_below, looks, title

#: Columns beside the runs' own clocks: the end of their names, how they are drawn, and what they are.
OTHER_CLOCKS = {"_of_jobs": ("|", "clocks of the Slurm jobs"), "_accounted": ("d", "Slurm's accounting")}

#: Colour of hours that were lost.
LOST = "#303030"


#: Hours by the start of their columns' names, with the name of the axis.
UNITS = {"gpu": "GPU hours", "cpu": "CPU thread hours", "wall": "wall hours"}


def unit_of(cost: pd.DataFrame) -> str:
    """Which hours are shown: those of GPUs where the study used any, else of CPU threads, where they are known."""
    if (cost["gpu_hours"] > 0).any():
        return "gpu"
    return "cpu" if cost["cpu_hours"].notna().all() else "wall"


@rc_context(STYLE)
def cost(cost: pd.DataFrame, study: StudyFile) -> Figure:
    """Hours of each arm's runs: of GPUs, of CPU threads where the study used none, wall hours where neither is known.

    Parameters
    ----------
    cost : DataFrame
        Table `cost`: one row per arm, and one for all runs.
    """
    unit = unit_of(complete(cost, Path("cost.csv")))
    rows = cost.set_index("arm")
    arms = study.arm_names
    figure = Figure(figsize=(ONE_COLUMN, row_height(arms) * len(arms) + 0.9))
    axes = figure.subplots()
    colours = [look.colour for look in looks(study).values()]
    axes.barh(range(len(arms)), rows.loc[arms, f"{unit}_hours"].to_numpy(float), height=0.6, color=colours)
    handles: list[Artist] = [Patch(facecolor="#a0a0a0", label="the runs' own clocks")]
    lost = np.zeros(len(arms)) if unit == "cpu" else rows.loc[arms, f"{unit}_hours_lost"].to_numpy(float)
    if (lost > 0).any():
        axes.barh(range(len(arms)), lost, height=0.6, color=LOST, hatch="////", edgecolor="white", linewidth=0)
        handles.append(Patch(facecolor=LOST, hatch="////", edgecolor="white", label="of these lost"))
    for ending, (marker, label) in OTHER_CLOCKS.items():
        column = f"{unit}_hours{ending}"
        if column in rows and rows.loc[arms, column].notna().any():
            hours = rows.loc[arms, column].to_numpy(float)
            axes.plot(hours, range(len(arms)), marker, color="black", markersize=6, markerfacecolor="white")
            handles.append(
                Line2D([], [], color="black", marker=marker, linestyle="none", markerfacecolor="white", label=label)
            )
    name_rows(axes, arms)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.set_xlabel(UNITS[unit])
    title(figure, "Cost of training by arm")
    runs = int(cost["runs"].iloc[-1])
    note = f"Sums over the runs of an arm, {runs} runs in all: measured, not estimated. Evaluations are not counted."
    legend_below(figure, handles, note)
    return figure
