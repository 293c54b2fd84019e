"""The first pages of all figures: what was studied, and what is on which page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reward_ablation.analysis.provenance.words import sentence
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import row_height
from reward_ablation.figures.elements.few_arms import MOST_ARMS
from reward_ablation.figures.elements.style import STYLE, WIDTH, looks, title
from reward_ablation.figures.elements.weights import COLUMN_WIDTH, weight_matrix

#: Of the first page: characters of a line beside its key, and inches of a line.
CHARACTERS, LINE_HEIGHT = 84, 0.17

#: Inches of a line of the contents, of the room above the first, and of the margins at the sides.
LINE, ABOVE, MARGIN = 0.22, 0.5, 0.15


def facts(study: StudyFile, provenance: pd.DataFrame) -> dict[str, str]:
    """What names the study, by key."""
    seeds = ", ".join(map(str, study.seeds))
    preview = {"preview": f"of {study.preview.runs} of {study.preview.planned} runs"} if study.preview else {}
    return {
        **preview,
        "model": study.model,
        "training data": study.training_data,
        "evaluation": ", ".join(study.datasets),
        "components": ", ".join(study.components),
        "arms": f"{len(study.arms)}, design {study.design}; baseline {study.baseline}"
        + (f"; control {study.control}" if study.control else "")
        + (f"; the first {MOST_ARMS} are below" if len(study.arms) > MOST_ARMS else ""),
        "seeds": f"{study.counted_seeds.partition(' seed')[0]}: {seeds}",
        "runs": f"{len({run.folder for run in study.runs})}",
        "intervals": f"{100 * study.confidence:g} % from {study.bootstrap:,} bootstrap resamples",
        "trained by": sentence(provenance),
    }


@rc_context(STYLE)
def title_page(study: StudyFile, provenance: pd.DataFrame) -> Figure:
    """Name the study, say what trained its runs, and list its arms, each with its look in figures and its weights."""
    written = [
        (key if n == 0 else "", line)
        for key, value in facts(study, provenance).items()
        for n, line in enumerate(textwrap.wrap(value, CHARACTERS) or [""])
    ]
    words = LINE_HEIGHT * (len(written) + 1)
    many = len(study.arms) > MOST_ARMS
    study = study.model_copy(update={"arms": study.arms[:MOST_ARMS]})
    table = row_height(study.arm_names) * len(study.arms) + 1.2
    matrix = COLUMN_WIDTH * 1.3 * len(study.components)
    width = max(WIDTH, 3.6 + matrix)
    figure = Figure(figsize=(width, 0.5 + words + table))
    title(figure, f"Reward ablation: {study.name}", fontsize=13)
    rows = figure.add_gridspec(2, 1, height_ratios=[words, table])
    text, grid = figure.add_subfigure(rows[0]), figure.add_subfigure(rows[1])
    for place, (key, line) in enumerate(written):
        baseline = 1 - (place + 1) * LINE_HEIGHT / words
        text.text(0.15 / width, baseline, key, weight="bold")
        text.text(1.25 / width, baseline, line)
    samples, weights, rest = grid.subplots(1, 3, width_ratios=[0.45, matrix, max(0.1, width - 2.6 - matrix)])
    rest.set_axis_off()
    weight_matrix(weights, study, study.arm_names)
    for place, look in enumerate(() if many else looks(study).values()):  # of many arms, figures name those they show
        style: dict[str, Any] = {"color": look.colour, "linestyle": look.dashes, "marker": look.marker}
        samples.plot([0, 0.5, 1], [place] * 3, markevery=[1], **style)
    samples.set_ylim(weights.get_ylim())
    samples.set_axis_off()
    return figure


class Line(NamedTuple):
    """A line of the contents; a heading has no page."""

    words: str
    page: int | None = None


@rc_context(STYLE)
def contents(lines: Sequence[Line]) -> tuple[Figure, list[tuple[float, float, float, float]]]:
    """Draw the contents; return the page and each line's box: left, bottom, right, top, in points."""
    height = ABOVE + LINE * (len(lines) + 0.5)
    figure = Figure(figsize=(WIDTH, height))
    title(figure, "Figures")
    left, right = MARGIN / WIDTH, 1 - MARGIN / WIDTH
    boxes = []
    for place, line in enumerate(lines):
        bottom = height - ABOVE - LINE * (place + 1)
        boxes.append((72 * MARGIN, 72 * bottom, 72 * (WIDTH - MARGIN), 72 * (bottom + LINE)))
        middle = (bottom + LINE / 2) / height
        if line.page is None:
            figure.text(left, middle, line.words, va="center", weight="bold")
            continue
        figure.text(2 * left, middle, line.words, va="center")
        figure.text(right, middle, str(line.page), va="center", ha="right")
        figure.add_artist(Line2D([2 * left, right], [bottom / height] * 2, color="#e4e4e4", linewidth=0.5))
    return figure, boxes
