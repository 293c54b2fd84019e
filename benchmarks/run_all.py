"""Run every benchmark and refresh the tables of docs/performance.md, or of the page that a script names.

    python benchmarks/run_all.py

Each script in this folder takes `--json FILE`, and has `table(result)`, which gives the Markdown that
goes between `<!-- name -->` and `<!-- /name -->` in the document: docs/performance.md, or its `DOCUMENT`.
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
    """Replace the part of a document between a benchmark's marks."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = document.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"error: {document}: no place marked {begin} ... {end}")
    document.write_text(f"{before}{begin}\n{table}\n{end}{after}")


def main() -> None:
    for script in sorted(FOLDER.glob("*.py")):
        if script == Path(__file__):
            continue
        print(f"== {script.stem}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            subprocess.run([sys.executable, str(script), "--json", str(result)], check=True)
            module = importlib.import_module(script.stem)
            document = DOCS / getattr(module, "DOCUMENT", "performance.md")
            replace(document, script.stem, module.table(json.loads(result.read_text())))


if __name__ == "__main__":
    main()
