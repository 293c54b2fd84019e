"""`python -m reward_ablation.figures FIGURE ...`: draw one figure as PDF and PNG, or join `all` of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.cost import read_cost
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.analysis.tables import read_table
from reward_ablation.figures.catalogue import FIGURES, files_of, module_of
from reward_ablation.figures.contents import Line
from reward_ablation.figures.files import bind, pages_of, save_pdf, save_png
from reward_ablation.figures.title_page import title_page
from reward_ablation.system.errors import one_line_errors, storage_errors


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.figures", description=__doc__)
    commands = parser.add_subparsers(dest="figure", required=True)
    for name in [*FIGURES, "all"]:
        command = commands.add_parser(name)
        command.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
        command.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
        command.add_argument("--output", type=Path, required=True, help="the PDF to write")
        if name == "all":
            command.add_argument("--pages", type=Path, nargs="+", required=True, help="PDFs of the figures, in order")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw one figure, or a title page and the contents followed by all of them."""
    options = parse(arguments)
    with storage_errors(options.output):
        make(options, read_study(options.study))


def make(options: argparse.Namespace, study: StudyFile) -> None:
    """Make what the command line asks for."""
    if options.figure == "all":
        with TemporaryDirectory() as folder:
            first = Path(folder) / "study.pdf"
            save_pdf(title_page(study, read_table("provenance", options.tables)), first, study.name)
            figures = [(FIGURES[page.stem].title, page) for page in options.pages]
            bind([("Study", first), *figures], contents_of(options.pages), options.output)
        return
    figure = draw(options.figure, [read(options.tables / file) for file in files_of(options.figure)], study)
    save_pdf(figure, options.output, f"{study.name}: {FIGURES[options.figure].title}")
    save_png(figure, options.output.with_suffix(".png"))


def contents_of(pages: Sequence[Path]) -> list[Line]:
    """Lines of the contents: figures under their categories, with their page behind the study's and the contents."""
    lines, page, category = [], 3, ""
    for file in pages:
        entry = FIGURES[file.stem]
        if entry.category != category:
            category = entry.category
            lines.append(Line(category))
        lines.append(Line(entry.title, page))
        page += pages_of(file)
    return lines


def draw(name: str, tables: Sequence[pd.DataFrame], study: StudyFile) -> Figure:
    """Draw a figure of the catalogue from its tables, in their order there."""
    function: Callable[..., Figure] = getattr(import_module(f"reward_ablation.{module_of(name)}"), name)
    return function(*tables, study)


def read(file: Path) -> pd.DataFrame:
    """Read a table that a figure is drawn from."""
    return read_cost(file) if file.suffix == ".csv" else read_table(file.stem, file.parent)


if __name__ == "__main__":
    with one_line_errors():
        main()
