"""Writing figures, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from reward_ablation.figures.elements.style import STYLE
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
