"""`python -m reward_ablation.figures NAME ...`: draw figures, each for a paper and as a page with its caption.

The rule `figures` runs it once with the names of all figures of a study.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import ModuleType

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.figures.catalogue import FIGURES, module_of, tables_of
from reward_ablation.figures.style import (
    ONE_COLUMN,
    STYLE,
    TITLE_CHARACTERS,
    TITLE_LINE,
    WIDTH,
    filled,
    save_pdf,
    save_png,
    take_caption,
    title,
)
from reward_ablation.system.errors import StudyError, first_line, one_line_errors, storage_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.masking import without_known_secrets

#: Height of the text of a paper's page, in inches. No figure for a column is higher.
PAGE_HEIGHT = 9.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw figures. If some cannot be drawn, one error names them, and the folder `drawn` keeps all others."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.figures", description=main.__doc__)
    parser.add_argument("figures", metavar="NAME", nargs="+", choices=FIGURES, help="figures of the catalogue")
    parser.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--output", type=Path, required=True, help="folder for NAME.pdf, .txt, .png and pages/NAME.pdf")
    parser.add_argument("--width", choices=["page", "column"], default="page", help="of NAME.pdf: 6.9 or 3.3 inches")
    parser.add_argument("--processes", type=int, default=1, help="how many figures are drawn at once (default: 1)")
    options = parser.parse_args(arguments)
    narrow = options.width == "column"
    study = read_study(options.study)
    one = partial(error_of, study=study, tables=options.tables, output=options.output, narrow=narrow)
    if options.processes == 1:
        errors = list(map(one, options.figures))
    else:
        with ProcessPoolExecutor(options.processes, initializer=end_with_parent) as pool:
            errors = list(pool.map(one, options.figures))
    kept = options.output / "drawn"
    shutil.rmtree(kept, ignore_errors=True)
    failed = {name: error for name, error in zip(options.figures, errors, strict=True) if error}
    if failed:
        # Snakemake removes every output of a failed rule, and one rule draws all figures.
        for file in [file for name in options.figures if name not in failed for file in files_of(name)]:
            (kept / file).parent.mkdir(parents=True, exist_ok=True)
            (options.output / file).replace(kept / file)
        reasons = "; ".join(f"{name}: {error}" for name, error in failed.items())
        others = f" (the others are in {kept})" * (len(failed) < len(errors))
        raise StudyError(f"{len(failed)} of {len(errors)} figures cannot be drawn{others}: {reasons}")


def files_of(name: str) -> list[str]:
    """Files of a figure: for a paper, with its caption as text, as an image with caption, and as a page."""
    return [f"{name}.pdf", f"{name}.txt", f"{name}.png", f"pages/{name}.pdf"]


def end_with_parent() -> None:
    """Let this process end when its parent is killed. Otherwise it would wait for work forever."""

    def wait() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def error_of(name: str, study: StudyFile, tables: Path, output: Path, narrow: bool) -> str:
    """Draw a figure and write its files; why that failed, or empty. `narrow` fits a column unless it is too high."""
    print(f"draw {name}\n", end="", flush=True)  # in one piece, because several processes write here
    try:
        with storage_errors(output / f"{name}.pdf"):
            read = [reader_of(name, file.stem)(file) for file in (tables / file for file in tables_of(name))]
            figure = draw(name, read, study)
            paper = draw(name, read, study, ONE_COLUMN) if narrow else figure
            if paper.get_figheight() > PAGE_HEIGHT and paper.get_figwidth() < figure.get_figwidth():
                print(f"{name} is too high for a column: {paper.get_figheight():.1f} inches\n", end="", flush=True)
                paper = figure
            save(figure, paper, name, study, output)
    except Exception as error:
        for file in files_of(name):
            (output / file).unlink(missing_ok=True)
        if isinstance(error, StudyError):
            return str(error)
        print(without_known_secrets(traceback.format_exc()), end="", flush=True)
        return f"{type(error).__name__}: {first_line(error)}"
    return ""


def save(figure: Figure, paper: Figure, name: str, study: StudyFile, output: Path) -> None:
    """Write a figure's page and PNG. Then take the caption out of `paper`, and write this PDF and the caption."""
    heading = f"{study.name}: {FIGURES[name].title}"
    save_pdf(figure, output / "pages" / f"{name}.pdf", heading)
    save_png(figure, output / f"{name}.png")
    caption = take_caption(paper)
    save_pdf(paper, output / f"{name}.pdf", heading)
    with atomic_path(output / f"{name}.txt") as temporary:
        temporary.write_text(f"{caption}\n")


def reader_of(figure: str, table: str) -> Callable[[Path], pd.DataFrame]:
    """Function that reads a table for a figure: that of its module's `READERS`, for some rows or columns, or all."""
    readers: dict[str, Callable[[Path], pd.DataFrame]] = getattr(_module(figure), "READERS", {})
    return readers.get(table, read_table)


@rc_context(STYLE)
def draw(name: str, tables: Sequence[pd.DataFrame], study: StudyFile, width: float = WIDTH) -> Figure:
    """Draw a figure of the catalogue from its tables, in their order there, in the style of all figures."""
    function: Callable[..., Figure] = getattr(_module(name), name)
    with rc_context({"figure.figsize": (width, 1.0)}):  # each figure sets its height
        figure = function(*tables, study)
    # A figure may have what it found as its title.
    words = ": ".join(filter(None, [FIGURES[name].title, figure.get_suptitle()]))
    words = filled(words, int(TITLE_CHARACTERS * figure.get_figwidth()))
    figure.set_figheight(figure.get_figheight() + TITLE_LINE * words.count("\n"))
    title(figure, words)
    return figure


def _module(figure: str) -> ModuleType:
    return import_module(f"reward_ablation.{module_of(figure)}")


if __name__ == "__main__":
    with one_line_errors():
        main()
