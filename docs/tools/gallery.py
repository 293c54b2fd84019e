"""Draw the pictures of docs/gallery.md from a finished demo and from made-up tables (`make gallery`).

PYTHONPATH=workflow:tests python docs/tools/gallery.py results/demo
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

from analysis.made_up import made_tables
from figures.conftest import STUDIES
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import read_study
from reward_ablation.figures.__main__ import draw
from reward_ablation.figures.catalogue import FIGURES, tables_of
from reward_ablation.figures.style import STYLE

FOLDER = Path(__file__).parents[1] / "images" / "gallery"
#: Figures that the demo does not have, drawn from a made-up study.
OF_METHODS = ("method_weights", "methods_offline", "by_level")
#: Pictures are for a page of the site and stay small in the repository.
MOST_BYTES = 60_000
RESOLUTIONS = (150, 130, 115, 100, 90, 80)
COLOURS = (256, 64, 32)


def small_png(figure: Figure) -> bytes:
    """The figure as a PNG of at most 256 colours, in the highest resolution that is small enough."""
    for resolution in RESOLUTIONS:
        full = io.BytesIO()
        with rc_context(STYLE):
            figure.savefig(full, format="png", dpi=resolution)
        picture = Image.open(full).convert("RGB")
        for colours in COLOURS:
            small = io.BytesIO()
            picture.quantize(colours, dither=Image.Dither.NONE).save(small, "png", optimize=True)
            if small.tell() < MOST_BYTES:
                return small.getvalue()
    raise ValueError("too large in the lowest resolution")


def main(demo: Path) -> None:
    """Write a picture of each figure of the catalogue."""
    study, tables = read_study(demo / "study.json"), demo / "tables"
    figures = {}
    with TemporaryDirectory() as root:
        methods = read_study(STUDIES["methods"].write(Path(root)))
        of_methods = made_tables(Path(root))
    for name in OF_METHODS:
        figures[name] = draw(name, [of_methods[table] for table in FIGURES[name].tables], methods)
    for name in FIGURES.keys() - figures.keys():
        figures[name] = draw(name, [read_table(tables / file) for file in tables_of(name)], study)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        (FOLDER / f"{name}.png").write_bytes(small_png(figures[name]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
