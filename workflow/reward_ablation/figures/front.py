"""The first pages of all.pdf: the title page, which describes the study, and the contents."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reward_ablation.analysis.provenance import sentence
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.estimates import row_height
from reward_ablation.figures.elements.few_arms import MOST_ARMS
from reward_ablation.figures.elements.style import STYLE, WIDTH, arm_looks, title
from reward_ablation.figures.elements.weights import COLUMN_WIDTH, weight_matrix

#: Title page: most characters in a line beside its key, and the height of a line in inches.
CHARACTERS, LINE_HEIGHT = 84, 0.17

#: Contents, in inches: height of a line, room above the first line, and width of the left and right margins.
LINE, ABOVE, MARGIN = 0.22, 0.5, 0.15


def facts(study: StudyFile, provenance: pd.DataFrame) -> dict[str, str]:
    """Facts about the study for the title page, by their keys."""
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
    """Name the study, say what trained its runs, and list its arms with their weights and their look in figures."""
    fact_lines = [
        (key if n == 0 else "", line)
        for key, value in facts(study, provenance).items()
        for n, line in enumerate(textwrap.wrap(value, CHARACTERS) or [""])
    ]
    facts_height = LINE_HEIGHT * (len(fact_lines) + 1)
    has_looks = len(study.arms) <= MOST_ARMS  # of many arms, each figure names those that it shows
    study = study.model_copy(update={"arms": study.arms[:MOST_ARMS]})
    arms_height = row_height(study.arm_names) * len(study.arms) + 1.2
    matrix_width = COLUMN_WIDTH * 1.3 * len(study.components)
    width = max(WIDTH, 3.6 + matrix_width)
    figure = Figure(figsize=(width, 0.5 + facts_height + arms_height))
    title(figure, f"Reward ablation: {study.name}", fontsize=13)
    rows = figure.add_gridspec(2, 1, height_ratios=[facts_height, arms_height])
    text, grid = figure.add_subfigure(rows[0]), figure.add_subfigure(rows[1])
    for number, (key, line) in enumerate(fact_lines, start=1):
        baseline = 1 - number * LINE_HEIGHT / facts_height
        text.text(0.15 / width, baseline, key, weight="bold")
        text.text(1.25 / width, baseline, line)
    widths = [0.45, matrix_width, max(0.1, width - 2.6 - matrix_width)]
    samples, weights, rest = grid.subplots(1, 3, width_ratios=widths)
    rest.set_axis_off()
    weight_matrix(weights, study, study.arm_names)
    for row, look in enumerate(arm_looks(study).values() if has_looks else ()):
        style: dict[str, Any] = {"color": look.colour, "linestyle": look.dashes, "marker": look.marker}
        samples.plot([0, 0.5, 1], [row] * 3, markevery=[1], **style)
    samples.set_ylim(weights.get_ylim())
    samples.set_axis_off()
    return figure


class Line(NamedTuple):
    """A line of the contents. A heading has no page."""

    words: str
    page: int | None = None


@rc_context(STYLE)
def contents(lines: Sequence[Line]) -> tuple[Figure, list[tuple[float, float, float, float]]]:
    """Draw the contents. Return the page, and the box of each line: left, bottom, right and top in points."""
    height = ABOVE + LINE * (len(lines) + 0.5)
    figure = Figure(figsize=(WIDTH, height))
    title(figure, "Figures")
    left, right = MARGIN / WIDTH, 1 - MARGIN / WIDTH
    boxes = []
    for number, line in enumerate(lines, start=1):
        bottom = height - ABOVE - LINE * number
        boxes.append((72 * MARGIN, 72 * bottom, 72 * (WIDTH - MARGIN), 72 * (bottom + LINE)))
        middle = (bottom + LINE / 2) / height
        if line.page is None:
            figure.text(left, middle, line.words, va="center", weight="bold")
            continue
        figure.text(2 * left, middle, line.words, va="center")
        figure.text(right, middle, str(line.page), va="center", ha="right")
        figure.add_artist(Line2D([2 * left, right], [bottom / height] * 2, color="#e4e4e4", linewidth=0.5))
    return figure, boxes
