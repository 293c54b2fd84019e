"""Run every benchmark and refresh the tables of docs/performance.md.

    python benchmarks/run_all.py

Each script in this folder takes `--json FILE`, and has `table(result)`, which gives the Markdown that
goes between `<!-- name -->` and `<!-- /name -->` in the document.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
DOCUMENT = FOLDER.parent / "docs" / "performance.md"


def replaced(text: str, name: str, table: str) -> str:
    """The document with the part between a benchmark's marks replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"error: {DOCUMENT}: no place marked {begin} ... {end}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    for script in sorted(FOLDER.glob("*.py")):
        if script == Path(__file__):
            continue
        print(f"== {script.stem}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            subprocess.run([sys.executable, str(script), "--json", str(result)], check=True)
            table = importlib.import_module(script.stem).table(json.loads(result.read_text()))
        DOCUMENT.write_text(replaced(DOCUMENT.read_text(), script.stem, table))


if __name__ == "__main__":
    main()
