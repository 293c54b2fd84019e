"""Run every benchmark and refresh the tables of docs/performance.md, or of the page that a script names.

    python benchmarks/run_all.py

Each script in this folder takes `--json FILE`. Its function `table(result)` returns the Markdown that goes between
`<!-- name -->` and `<!-- /name -->` in a page: the script's `DOCUMENT`, else docs/performance.md.
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
