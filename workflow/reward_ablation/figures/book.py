"""`python -m reward_ablation.figures.book ...`: bind all figures into one PDF, after a title page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link
from pypdf.errors import PyPdfError

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import read_study
from reward_ablation.figures.catalogue import FIGURES, PAGES
from reward_ablation.figures.elements.style import save_pdf
from reward_ablation.figures.front import Line, contents, title_page
from reward_ablation.system.errors import StudyError, one_line_errors, storage_errors
from reward_ablation.system.files import atomic_path


def main(arguments: Sequence[str] | None = None) -> None:
    """Bind all figures into one PDF, after a title page. With an appendix, a page of contents follows it."""
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
        figures = [(FIGURES[page.stem].title, page) for page in options.pages]
        has_appendix = any(page.stem not in PAGES for page in options.pages)
        bind([("Study", first), *figures], contents_of(options.pages) if has_appendix else [], options.output)


def contents_of(pages: Sequence[Path]) -> list[Line]:
    """Lines of the contents: each category, and below it the category's figures with their page numbers.

    The title page is page 1 and the contents are page 2, so the figures begin on page 3.
    """
    lines, page, category = [], 3, ""
    for file in pages:
        entry = FIGURES[file.stem]
        if entry.category != category:
            category = entry.category
            lines.append(Line(category))
        lines.append(Line(entry.title, page))
        page += pages_of(file)
    return lines


def bind(pages: Sequence[tuple[str, Path]], lines: Sequence[Line], path: Path) -> None:
    """Join the title page, a page of contents if it has lines, and all figures into one PDF with a bookmark for each.

    `pages` has the bookmark and PDF file of the title page and of each figure, in order. The page numbers of `lines`
    count from 1.
    """
    (first, *others), writer = pages, PdfWriter()
    writer.append(first[1], outline_item=first[0])
    boxes: list[tuple[float, float, float, float]] = []
    if lines:
        figure, boxes = contents(lines)
        with TemporaryDirectory() as folder:
            page = Path(folder) / "contents.pdf"
            save_pdf(figure, page, "Figures")
            writer.append(page, outline_item="Figures")
    for name, file in others:
        writer.append(file, outline_item=name)
    for line, box in zip(lines, boxes, strict=True):
        if line.page is not None:
            writer.add_annotation(1, Link(rect=box, target_page_index=line.page - 1, border=[0, 0, 0]))
    with atomic_path(path) as temporary, open(temporary, "wb") as target:
        writer.write(target)


def pages_of(path: Path) -> int:
    """Number of pages of a PDF file."""
    try:
        return len(PdfReader(path).pages)
    except (PyPdfError, OSError) as error:
        raise StudyError(f"{path}: truncated or changed ({error}); delete it and run the workflow again") from error


if __name__ == "__main__":
    with one_line_errors():
        main()
