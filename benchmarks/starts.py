"""The cost of imports: by stage, and for all figures by a command for each or by one command.

    python benchmarks/starts.py --json FILE [--turns 3]

CPU seconds are user and system time of all processes that take part. All figures of a made-up study are drawn one after
the other, in two ways that take turns: by a command for each figure, and by one command for all, which imports what it
needs once. The imports of a stage are those that its first work needs. Shares of packages are shares of the time that
Python reports for imports.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from analysis.made_up import MadeUpStudy, write_tables  # noqa: E402
from reward_ablation.figures.catalogue import FIGURES  # noqa: E402

#: What a process of each stage imports before its first work.
STAGES = {
    "Snakemake with this workflow's Snakefile": "import snakemake.cli, reward_ablation.start.reruns",
    "training": "import reward_ablation.training.__main__, reward_ablation.training.around.run",
    "evaluation": "import reward_ablation.evaluation.__main__, reward_ablation.evaluation.generate",
    "tables of training": "import reward_ablation.analysis.training",
    "tables of evaluation": "import reward_ablation.analysis.evaluation.tables",
    "summary": "import reward_ablation.report.__main__",
    "a figure": "import reward_ablation.figures.__main__, reward_ablation.figures.training",
}
#: Number of packages that the table names per stage.
NAMED = 4


def import_seconds(code: str) -> float:
    """CPU seconds of a Python process that runs `code`."""
    process = subprocess.Popen([sys.executable, "-c", code])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"error: {code}: status {status}")
    return usage.ru_utime + usage.ru_stime


def package_shares(code: str) -> dict[str, float]:
    """Share of each package in the time of imports, the largest shares first."""
    command = [sys.executable, "-X", "importtime", "-c", code]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spent: Counter[str] = Counter()
    for own, package in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)", lines, re.MULTILINE):
        spent[package] += int(own)
    return {package: time / spent.total() for package, time in spent.most_common(NAMED)}


def figure_seconds(root: Path, together: bool) -> float:
    """CPU seconds of drawing all figures: one after the other by a command for each, or by one command."""
    start = children_seconds()
    folders = ["--study", f"{root}/study.json", "--tables", f"{root}/tables", "--output", f"{root}/figures"]
    for names in [[*FIGURES]] if together else [[name] for name in FIGURES]:
        command = [sys.executable, "-m", "reward_ablation.figures", *names, *folders]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return children_seconds() - start


def children_seconds() -> float:
    """CPU seconds of all processes that this process started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(turns: int) -> dict[str, Any]:
    """Seconds of the figures in both ways by turn, imports by stage, and the load average."""
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "workflow")}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        MadeUpStudy(steps=40, rollouts=16).write(root)
        with redirect_stdout(sys.stderr):
            write_tables(root)
        figures = [[figure_seconds(root, together) for together in (False, True)] for _ in range(turns)]
    stages = {
        stage: {
            "seconds": statistics.median(import_seconds(code) for _ in range(turns)),
            "shares": package_shares(code),
        }
        for stage, code in STAGES.items()
    }
    return {"figures": figures, "stages": stages, "load": os.getloadavg()[0]}


def table(result: dict[str, Any]) -> str:
    """Markdown: one row per stage, and a line on figures."""
    lines = ["| stage | CPU seconds of imports | largest packages |", "| --- | --- | --- |"]
    for stage, cost in result["stages"].items():
        shares = ", ".join(f"{package} {share:.0%}" for package, share in cost["shares"].items())
        lines.append(f"| {stage} | {cost['seconds']:.1f} | {shares} |")
    single, together = (statistics.median(column) for column in zip(*result["figures"], strict=True))
    ratios = [after / before for before, after in result["figures"]]
    lines += [
        "",
        f"{len(FIGURES)} figures: {single:.1f} CPU seconds by a command for each, {together:.1f} by one command. Ratio "
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) in {len(ratios)} turns. "
        f"Load average at the end: {result['load']:.1f}.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the result")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    result = measure(options.turns)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    print(table(result))


if __name__ == "__main__":
    main()
