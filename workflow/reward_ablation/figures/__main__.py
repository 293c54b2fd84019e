"""`python -m reward_ablation.figures MODULE ...`: draw one figure for a paper, and as a page with its caption.

This module does not import the catalogue of figures. So a change of the catalogue does not draw every figure again: the
code digest of a figure covers only the modules that draw it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.figures.elements.style import STYLE, save_pdf, save_png, take_caption, title
from reward_ablation.system.errors import one_line_errors, storage_errors
from reward_ablation.system.files import atomic_path


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw one figure."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.figures", description=main.__doc__)
    parser.add_argument("module", help="module that draws the figure, such as figures.training.rewards")
    parser.add_argument("--title", required=True, help="title of the figure, on the page and in the PDF's metadata")
    parser.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
    parser.add_argument("--tables", type=Path, nargs="+", required=True, help="files of the tables, in order")
    parser.add_argument("--output", type=Path, required=True, help="the PDF for a paper, with NAME.txt and NAME.png")
    options = parser.parse_args(arguments)
    with storage_errors(options.output):
        study = read_study(options.study)
        tables = [reader_of(options.module, file.stem)(file) for file in options.tables]
        figure = draw(options.module, options.title, tables, study)
        name = f"{study.name}: {options.title}"
        page = options.output.parent / "pages" / options.output.name
        page.parent.mkdir(parents=True, exist_ok=True)
        save_pdf(figure, page, name)
        save_png(figure, options.output.with_suffix(".png"))
        caption = take_caption(figure)
        save_pdf(figure, options.output, name)
        with atomic_path(options.output.with_suffix(".txt")) as temporary:
            temporary.write_text(f"{caption}\n")


def reader_of(module: str, table: str) -> Callable[[Path], pd.DataFrame]:
    """Function that reads a table for a figure: by default the whole table.

    A module that draws few rows or columns of a large table has a reader for this table in its dictionary `READERS`.
    """
    readers: dict[str, Callable[[Path], pd.DataFrame]] = getattr(_module(module), "READERS", {})
    return readers.get(table, read_table)


@rc_context(STYLE)
def draw(module: str, heading: str, tables: Sequence[pd.DataFrame], study: StudyFile) -> Figure:
    """Draw a figure from its tables, in the style of all figures.

    `module` is below the library, such as `figures.training.rewards`, and the function that draws the figure has the
    module's name. Its parameters are the tables, in this order, and last the study.
    """
    function: Callable[..., Figure] = getattr(_module(module), module.rpartition(".")[2])
    figure = function(*tables, study)
    title(figure, heading)
    return figure


def _module(name: str) -> ModuleType:
    return import_module(f"reward_ablation.{name}")


if __name__ == "__main__":
    with one_line_errors():
        main()
