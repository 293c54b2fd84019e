"""The generated parts of `docs/architecture.md`: the drawing of the packages, and the table of the packages.

    python docs/tools/architecture.py

The rows of the drawing are the layers of the contract "Imports run downward" in `pyproject.toml`. The arrows and the
table are from the imports in the code. Only the columns of the boxes are chosen here, by hand.
"""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from html import escape
from pathlib import Path

from grimp import build_graph

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "reward_ablation"
PAGE = ROOT / "docs" / "architecture.md"
DRAWING = ROOT / "docs" / "images" / "architecture.svg"
BEGIN, END = "<!-- packages -->\n", "<!-- /packages -->"

#: Column of each package's box. A column is one box wide. No arrow runs through a box.
COLUMNS = {
    "start": 3.5,
    "watch": 4.5,
    "figures": 3,
    "imported": 1,
    "report": 3,
    "design": 2,
    "analysis": 0.5,
    "evaluation": 2.5,
    "scores": 1.5,
    "sft": 3.5,
    "trl": 4.5,
    "training": 3.5,
    "cluster": 3,
    "models": 2,
    "data": 3.5,
    "sampling": 0,
    "study": 2,
    "combination": 3,
    "rewards": 3.5,
    "gram": 1.2,
    "spec": 2,
    "config": 3,
    "system": 0,
}
#: Pixels between two columns and between two rows, and the size of a box.
COLUMN, ROW, WIDTH, HEIGHT = 132, 60, 112, 32
MARGIN = 12
#: The colours can be read on a light page and on a dark page: the boxes are filled, and the arrows are grey.
STYLE = """
.box { fill: #e8eef7; stroke: #5b7aa8; }
.name { font: 14px sans-serif; fill: #1b2a41; text-anchor: middle; }
.import { stroke: #7d8794; stroke-width: 1.6; fill: none; marker-end: url(#head); }
.head { fill: #7d8794; }
"""


def layers() -> list[list[str]]:
    """Packages of each layer, the highest layer first."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    contract = next(each for each in linter["contracts"] if each["name"] == "Imports run downward")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def imports() -> dict[str, set[str]]:
    """Packages that each package imports in one of its modules, without imports for type hints alone."""
    graph = build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = {name: set() for layer in layers() for name in layer}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            importer, target = [f"{name}.".split(".")[1] for name in (module, imported)]
            if importer and target and importer != target:
                found[importer].add(target)
    return found


def reached(package: str, direct: dict[str, set[str]]) -> set[str]:
    """Packages that a package imports, or that these import in turn."""
    return direct[package].union(*(reached(name, direct) for name in direct[package]))


def arrows(direct: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The fewest imports from which all others follow: an import that a longer path implies has no arrow."""
    return [
        (package, target)
        for package, targets in direct.items()
        for target in sorted(targets)
        if not any(target in reached(other, direct) for other in targets - {target})
    ]


def places() -> dict[str, tuple[float, float]]:
    """Centre of each package's box."""
    rows = {name: row for row, layer in enumerate(layers()) for name in layer}
    if other := rows.keys() ^ COLUMNS.keys():
        sys.exit(f"error: {', '.join(sorted(other))}: a package came or went; change COLUMNS in {Path(__file__).name}")
    return {
        name: (MARGIN + WIDTH / 2 + COLUMN * COLUMNS[name], MARGIN + HEIGHT / 2 + ROW * row)
        for name, row in rows.items()
    }


def drawing() -> str:
    """The drawing as SVG: one box for each package, in the row of its layer."""
    boxes = places()
    width = max(x for x, _ in boxes.values()) + WIDTH / 2 + MARGIN
    height = max(y for _, y in boxes.values()) + HEIGHT / 2 + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">',
        "<title>Packages of the library and their imports</title>",
        f"<style>{STYLE}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker>',
    ]
    for package, target in arrows(imports()):
        (x, y), (to_x, to_y) = ends(boxes[package], boxes[target])
        lines.append(f'<path class="import" d="M{x:g} {y:g} L{to_x:g} {to_y:g}"/>')
    lines += [box(name, *centre) for name, centre in boxes.items()]
    return "\n".join([*lines, "</svg>\n"])


def ends(start: tuple[float, float], end: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of an arrow: at the lower edge of the importing package and at the upper edge of the imported package."""
    (x, y), (to_x, to_y) = start, end
    lean = max(-1.0, min(1.0, (to_x - x) / COLUMN)) * WIDTH / 4  # arrows at one box stay apart
    return (x + lean, y + HEIGHT / 2), (to_x - lean, to_y - HEIGHT / 2 - 1)


def box(name: str, x: float, y: float) -> str:
    """A package."""
    return (
        f'<rect class="box" x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text class="name" x="{x:g}" y="{y + 5:g}">{escape(name)}</text>'
    )


def purpose(package: str) -> str:
    """First line of the docstring of a package."""
    text = importlib.import_module(f"{PACKAGE}.{package}").__doc__
    if not text:
        sys.exit(
            f"error: workflow/{PACKAGE}/{package}/__init__.py: no docstring; say in one line what the package is for"
        )
    return text.splitlines()[0]


def table() -> str:
    """Markdown table of the packages, in the order of the layers."""
    direct = imports()
    order = [name for layer in layers() for name in layer]
    rows = [
        f"| `{name}` | {purpose(name)} "
        f"| {', '.join(each for each in order if each in direct[name]) or 'no other package'} |"
        for name in order
    ]
    return "\n".join(["| package | what the package is for | imports |", "| --- | --- | --- |", *rows]) + "\n"


def with_table(page: str) -> str:
    """The page with the table of the code as it is now."""
    return re.sub(f"(?<={BEGIN}).*(?={END})", lambda _: table(), page, count=1, flags=re.DOTALL)


def main() -> None:
    DRAWING.write_text(drawing(), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
