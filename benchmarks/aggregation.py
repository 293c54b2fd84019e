"""The cost of all tables and figures of a study, by its number of arms.

    python benchmarks/aggregation.py --json FILE [--arms 10 100 1000]

Simulated studies of 5 seeds, 1,319 questions with a greedy and 8 sampled answers each, 50 steps of 64 rollouts, and
similarities of 3 components' gradients in 26 layers, with Gram matrices of single completions, at every tenth step; the
smallest study also at each step. The rules of tables run one after the other. Then one command draws all figures, two
at a time. Measured are CPU time (user and system), wall time, and the largest peak memory of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from analysis.made_up import MadeUpStudy  # noqa: E402
from reward_ablation.analysis.registry import RULES  # noqa: E402
from reward_ablation.figures.catalogue import FIGURES  # noqa: E402

COMPONENTS = ["correctness", "format", "length"]


def simulated_study(arms: int, every: int) -> MadeUpStudy:
    """A study of `arms` random weightings. The first three have weight on one component only."""
    weights = np.vstack([np.eye(len(COMPONENTS)), np.random.default_rng(0).dirichlet(np.ones(len(COMPONENTS)), arms)])
    return MadeUpStudy(
        arms={f"arm{n}": dict(zip(COMPONENTS, map(float, row), strict=True)) for n, row in enumerate(weights[:arms])},
        seeds=(0, 1, 2, 3, 4),
        steps=50,
        rollouts=64,
        problems=8,
        sample_grams=True,
        datasets={"gsm8k_test": 1319},
        samples=8,
        layers=22,
        gradients_every=every,
    )


def measured(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Wall and CPU seconds and peak MB of a command."""
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", *command], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"error: {' '.join(command)}: status {os.waitstatus_to_exitcode(status)}")
    return {
        "wall": time.monotonic() - start,
        "cpu": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
    }


def one_size(arms: int, every: int) -> dict[str, Any]:
    """Costs of a study of `arms` arms that measures gradients at every `every` steps."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        study = simulated_study(arms, every).write(root)
        about = ["--study", str(study)]
        start = time.monotonic()
        tables = [
            measured(["reward_ablation.analysis", rule, *about, "--output", str(root / "tables")], environment)
            for rule in RULES
        ]
        costs = {"tables": {"wall": time.monotonic() - start, **total({str(n): cost for n, cost in enumerate(tables)})}}
        folders = ["--tables", str(root / "tables"), "--output", str(root / "figures")]
        figures = ["reward_ablation.figures", *FIGURES, *about, *folders, "--processes", "2"]
        costs["figures"] = measured(figures, environment)
        wall = costs["tables"]["wall"] + costs["figures"]["wall"]
        print(f"{arms} arms: {wall:.0f} s", flush=True)
    return {"arms": arms, "every": every, "wall": wall, "costs": costs}


def total(costs: dict[str, dict[str, float]]) -> dict[str, float]:
    """Sum of the CPU seconds, and the largest peak memory."""
    return {
        "cpu": sum(of_one["cpu"] for of_one in costs.values()),
        "megabytes": max(of_one["megabytes"] for of_one in costs.values()),
    }


def table(result: dict[str, Any]) -> str:
    """Markdown: a row per size."""
    lines = [
        "| arms | measured steps a run | answers | tables: CPU s, peak MB | figures: CPU s, peak MB | total: wall s "
        "| CPU time over the first row's |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    first = None
    for size in result["sizes"]:
        tables, figures = size["costs"]["tables"], size["costs"]["figures"]
        both = total(size["costs"])
        first = first or both["cpu"]
        lines.append(
            f"| {size['arms']:,} | {50 // size['every']} | {size['arms'] * 5 * 1319 * 9:,} |"
            f" {tables['cpu']:.0f}, {tables['megabytes']:,.0f} |"
            f" {figures['cpu']:.0f}, {figures['megabytes']:,.0f} | {size['wall']:.0f} | {both['cpu'] / first:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="file for the result")
    parser.add_argument("--arms", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args()
    result = {"sizes": [one_size(*size) for size in [(min(options.arms), 1), *((arms, 10) for arms in options.arms)]]}
    options.json.write_text(json.dumps(result, indent=1))
    print(table(result))


if __name__ == "__main__":
    main()
