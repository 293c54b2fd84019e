"""Writing figures, the same bytes each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from pypdf import PdfWriter

from reward_ablation.figures.elements.style import STYLE
from reward_ablation.study.files import atomic_path


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


def merge(pages: Sequence[Path], path: Path) -> None:
    """Join PDF files into one, with a bookmark per file."""
    writer = PdfWriter()
    for page in pages:
        writer.append(page, outline_item=page.stem)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        writer.write(file)
