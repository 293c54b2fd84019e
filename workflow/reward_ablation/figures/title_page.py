"""The first page of all figures: what was studied."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from reward_ablation.analysis.provenance.words import sentence
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import row_height
from reward_ablation.figures.elements.style import STYLE, WIDTH, looks
from reward_ablation.figures.elements.weights import COLUMN_WIDTH, weight_matrix

#: Characters of a line of text beside its key.
LINE = 84

#: Inches that a line of text takes.
LINE_HEIGHT = 0.17


def facts(study: StudyFile, provenance: pd.DataFrame) -> dict[str, str]:
    """What names the study, by key."""
    seeds = ", ".join(str(seed) for seed in study.seeds)
    return {
        "model": study.model,
        "training data": study.training_data,
        "evaluation": ", ".join(study.datasets),
        "components": ", ".join(study.components),
        "arms": f"{len(study.arms)}, design {study.design}; baseline {study.baseline}",
        "seeds": f"{len(study.seeds)}: {seeds}",
        "runs": f"{len({run.folder for run in study.runs})}",
        "intervals": f"{100 * study.confidence:g} % from {study.bootstrap:,} bootstrap resamples",
        "trained by": sentence(provenance),
    }


@rc_context(STYLE)
def title_page(study: StudyFile, provenance: pd.DataFrame) -> Figure:
    """Name the study, say what trained its runs, and list its arms, each with its look in all figures and its weights.

    Parameters
    ----------
    provenance : DataFrame
        Table `provenance`.
    """
    lines = {key: textwrap.wrap(value, LINE) or [""] for key, value in facts(study, provenance).items()}
    words = LINE_HEIGHT * (sum(len(of_key) for of_key in lines.values()) + 1)
    table = row_height(study.arm_names) * len(study.arms) + 1.2
    matrix = COLUMN_WIDTH * 1.3 * len(study.components)
    width = max(WIDTH, 3.6 + matrix)
    figure = Figure(figsize=(width, 0.5 + words + table))
    figure.suptitle(f"Reward ablation: {study.name}", x=0.012, ha="left", weight="bold", fontsize=13)
    rows = figure.add_gridspec(2, 1, height_ratios=[words, table])
    text, grid = figure.add_subfigure(rows[0]), figure.add_subfigure(rows[1])
    written = [(key if n == 0 else "", line) for key, of_key in lines.items() for n, line in enumerate(of_key)]
    for place, (key, line) in enumerate(written):
        baseline = 1 - (place + 1) * LINE_HEIGHT / words
        text.text(0.15 / width, baseline, key, weight="bold")
        text.text(1.25 / width, baseline, line)
    samples, weights, rest = grid.subplots(1, 3, width_ratios=[0.45, matrix, max(0.1, width - 2.6 - matrix)])
    rest.set_axis_off()
    weight_matrix(weights, study, study.arm_names)
    for place, look in enumerate(looks(study).values()):
        sample = {"color": look.colour, "linestyle": look.dashes, "marker": look.marker}
        samples.plot([0, 0.5, 1], [place] * 3, markevery=[1], **sample)
    samples.set_ylim(weights.get_ylim())
    samples.set_axis_off()
    return figure
