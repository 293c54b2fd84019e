"""Writing figures, the same bytes each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import rc_context
from matplotlib.figure import Figure
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link
from pypdf.errors import PyPdfError

from reward_ablation.figures.contents import Line
from reward_ablation.figures.contents import contents as draw_contents
from reward_ablation.figures.elements.style import STYLE
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path


@rc_context(STYLE)
def save_pdf(figure: Figure, path: Path, name: str) -> None:
    """Write a figure as PDF with embedded fonts and without a date."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None, "Title": name})


@rc_context(STYLE)
def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=200)


def bind(pages: Sequence[tuple[str, Path]], contents: Sequence[Line], path: Path) -> None:
    """Join the study's page, a page of contents and all figures into one file, with a bookmark each.

    Parameters
    ----------
    pages : sequence of (str, Path)
        Name and PDF file of the study's page and of each figure, in order.
    contents : sequence of Line
        What the page of contents says; pages count from 1.
    """
    figure, boxes = draw_contents(contents)
    (first, *_), writer = pages, PdfWriter()
    with TemporaryDirectory() as folder:
        page = Path(folder) / "contents.pdf"
        save_pdf(figure, page, "Figures")
        for name, file in [first, ("Figures", page), *pages[1:]]:
            writer.append(file, outline_item=name)
    for line, box in zip(contents, boxes, strict=True):
        if line.page is not None:
            writer.add_annotation(1, Link(rect=box, target_page_index=line.page - 1, border=[0, 0, 0]))
    with atomic_path(path) as temporary, open(temporary, "wb") as target:
        writer.write(target)


def pages_of(path: Path) -> int:
    """How many pages a PDF file has."""
    try:
        return len(PdfReader(path).pages)
    except (PyPdfError, OSError) as error:
        raise StudyError(f"{path}: truncated or changed ({error}); delete it and run the workflow again") from error
