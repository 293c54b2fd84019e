"""`python -m reward_ablation.figures.book ...`: bind figures into one PDF, after a title page.

The rule `all_figures` runs it with the pages that `catalogue.pages_of` names, which are not all figures.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from pypdf import PdfWriter
from pypdf.errors import PyPdfError

from reward_ablation.analysis.provenance import sentence
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.figures.catalogue import FIGURES
from reward_ablation.figures.estimates import COLUMN_WIDTH, row_height, weight_matrix
from reward_ablation.figures.few_arms import MOST_ARMS
from reward_ablation.figures.style import STYLE, WIDTH, arm_looks, save_pdf, title, with_escapes, wrapped
from reward_ablation.system.errors import StudyError, one_line_errors, storage_errors
from reward_ablation.system.files import atomic_path

#: Title page: most characters in a line of the heading, and beside a key, and the height of a line in inches.
NAME_CHARACTERS, CHARACTERS, LINE_HEIGHT = 50, 84, 0.17


def main(arguments: Sequence[str] | None = None) -> None:
    """Bind all figures into one PDF with a bookmark for each, after a title page."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.figures.book", description=main.__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
    parser.add_argument("--provenance", type=Path, required=True, help="file of the table provenance")
    parser.add_argument("--pages", type=Path, nargs="+", required=True, help="PDFs of the figures, in order")
    parser.add_argument("--output", type=Path, required=True, help="the PDF to write")
    options = parser.parse_args(arguments)
    with storage_errors(options.output), TemporaryDirectory() as folder:
        study = read_study(options.study)
        first = Path(folder) / "study.pdf"
        save_pdf(title_page(study, read_table(options.provenance)), first, study.name)
        bind([("Study", first), *((FIGURES[page.stem].title, page) for page in options.pages)], options.output)


def bind(pages: Sequence[tuple[str, Path]], path: Path) -> None:
    """Join PDF files, in order, each with its bookmark."""
    writer = PdfWriter()
    for name, file in pages:
        try:
            writer.append(file, outline_item=name)
        except (PyPdfError, OSError) as error:
            words = f"{file}: truncated or changed ({error}); delete it and run the workflow again"
            raise StudyError(words) from error
    with atomic_path(path) as temporary, open(temporary, "wb") as target:
        writer.write(target)


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
    """The study's name, what trained it, and its arms with weights and looks; of too many the first, without looks."""
    fact_lines = [
        (key if n == 0 else "", line)
        for key, value in facts(study, provenance).items()
        for n, line in enumerate(textwrap.wrap(with_escapes(value), CHARACTERS) or [""])
    ]
    heading = wrapped(f"Reward ablation: {study.name}", NAME_CHARACTERS)
    facts_height = LINE_HEIGHT * (len(fact_lines) + 1)
    has_looks = len(study.arms) <= MOST_ARMS  # of many arms, each figure names those that it shows
    study = study.model_copy(update={"arms": study.arms[:MOST_ARMS]})
    arms_height = row_height(study.arm_names) * len(study.arms) + 1.2
    matrix_width = COLUMN_WIDTH * 1.3 * len(study.components)
    width = max(WIDTH, 3.6 + matrix_width)
    figure = Figure(figsize=(width, 0.5 + 0.22 * heading.count("\n") + facts_height + arms_height))
    title(figure, heading, fontsize=13)
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


if __name__ == "__main__":
    with one_line_errors():
        main()
