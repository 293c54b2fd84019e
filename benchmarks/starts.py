"""The cost of imports: by stage, and for all figures in separate processes or in forks of one process.

    python benchmarks/starts.py --json FILE [--turns 3]

CPU seconds are user and system time of all processes that take part. All figures of a made-up study are drawn two at a
time, in two ways that take turns: each figure in a process of its own, and each figure in a fork of one process that
has done its imports. The imports of a stage are those that its first work needs. Shares of packages are shares of the
time that Python reports for imports.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from analysis.all_tables import write_tables  # noqa: E402
from analysis.made_up import MadeUpStudy  # noqa: E402
from reward_ablation.figures.catalogue import FIGURES, module_of, tables_of  # noqa: E402
from reward_ablation.start.forks import Forks  # noqa: E402

#: What a process of each stage imports before its first work.
STAGES = {
    "Snakemake with this workflow's Snakefile": "import snakemake.cli, reward_ablation.start.commands",
    "training": "import reward_ablation.training.__main__, reward_ablation.training.around.run",
    "evaluation": "import reward_ablation.evaluation.__main__, reward_ablation.evaluation.generate",
    "tables of training": "import reward_ablation.analysis.training.__main__",
    "tables of evaluation": "import reward_ablation.analysis.evaluation.__main__",
    "summary": "import reward_ablation.summary.__main__",
    "a figure": "import reward_ablation.figures.__main__, reward_ablation.figures.training.rewards",
}
#: Number of packages that the table names per stage.
NAMED = 4
#: Linux: this process becomes the parent of processes that a child leaves behind, and can wait for them.
CHILD_SUBREAPER = 36


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


def figure_seconds(root: Path, forked: bool) -> float:
    """CPU seconds of drawing all figures. This script draws them, in a process of its own."""
    command = [sys.executable, __file__, "--draw", str(root), *(["--forked"] if forked else [])]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def draw(root: Path, forks: Forks | None) -> None:
    """Draw all figures, in forks or in separate processes."""

    def draw_one(name: str) -> None:
        arguments = [module_of(name), "--title", FIGURES[name].title, "--study", f"{root}/study.json", "--tables"]
        arguments += [*(f"{root}/tables/{file}" for file in tables_of(name)), "--output", f"{root}/{name}.pdf"]
        if forks:
            forks.run("reward_ablation.figures.__main__", arguments, f"{root}/{name}.log")
        else:
            subprocess.run([sys.executable, "-m", "reward_ablation.figures", *arguments], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(draw_one, FIGURES))


def draw_and_count(root: Path, forked: bool) -> None:
    """Draw all figures and print the CPU seconds of all processes that took part."""
    ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1, 0, 0, 0)
    draw(root, Forks() if forked else None)
    with suppress(ChildProcessError):
        while os.wait():
            pass
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(usage.ru_utime + usage.ru_stime)


def measure(turns: int) -> dict[str, Any]:
    """Seconds of the figures in both ways by turn, imports by stage, and the load average."""
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "workflow")}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        MadeUpStudy(steps=40, rollouts=16).write(root)
        with redirect_stdout(sys.stderr):
            write_tables(root)
        figures = [[figure_seconds(root, forked) for forked in (False, True)] for _ in range(turns)]
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
    single, forked = (statistics.median(column) for column in zip(*result["figures"], strict=True))
    ratios = [after / before for before, after in result["figures"]]
    lines += [
        "",
        f"{len(FIGURES)} figures: {single:.1f} CPU seconds in separate processes, {forked:.1f} in forks. Ratio "
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) in {len(ratios)} turns. "
        f"Load average at the end: {result['load']:.1f}.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the result")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--draw", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--forked", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.draw:
        draw_and_count(options.draw, options.forked)
        return
    result = measure(options.turns)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    print(table(result))


if __name__ == "__main__":
    main()
