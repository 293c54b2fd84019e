"""Run every benchmark and print its table, which also goes into the page that has a place for it.

    python benchmarks/run_all.py

Each script in this folder takes `--json FILE`. Its function `table(result)` returns Markdown. A page has a place for it
between `<!-- name -->` and `<!-- /name -->`: docs/performance.md, or the page that a script names as `DOCUMENT`.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
DOCS = FOLDER.parent / "docs"


def replace(document: Path, name: str, table: str) -> None:
    """Replace the part of a document between the marks of a benchmark."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = document.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"error: {document}: no place marked {begin} ... {end}")
    document.write_text(f"{before}{begin}\n{table}\n{end}{after}")


def main() -> None:
    for script in sorted(FOLDER.glob("*.py")):
        if script in (Path(__file__), FOLDER / "same_bytes.py"):  # the latter compares two checkouts
            continue
        print(f"== {script.stem}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            subprocess.run([sys.executable, str(script), "--json", str(result)], check=True)
            module = importlib.import_module(script.stem)
            table = module.table(json.loads(result.read_text()))
            print(table, flush=True)
            document = DOCS / getattr(module, "DOCUMENT", "performance.md")
            if f"<!-- {script.stem} -->" in document.read_text():
                replace(document, script.stem, table)


if __name__ == "__main__":
    main()
