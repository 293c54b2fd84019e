"""What a method of combination costs a training step, against TRL's weighted sum.

    python benchmarks/combinations.py --json FILE [--turns 15]

The demo's model, components and 64 completions a step, generation included. Each method trains beside the weighted sum,
in turns: methods that go by no gradients beside a step that measures nothing, gradient methods beside one that does.
CPU time of one process with one thread. The median of the ratios over turns, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "workers"))

from gradient_steps import FEW, Bench, Size, generate_and_step, in_turns

from reward_ablation.combination.load import load_method
from reward_ablation.combination.of_run import CombinationOfRun
from reward_ablation.config.sections.model import DemoModel
from reward_ablation.models.fetch import fetch

SIZE = Size("demo", 64, 0, 48, 0, ())
BOUNDS = {"correctness": (0, 1), "format": (0, 1), "length": (0, 1)}
#: Parameters of methods that go by no gradients, and the Gram matrices of those that do.
WITHOUT: dict[str, dict[str, Any]] = {
    "schedule": {"format": {"0": 1, "100": 0}},
    "gate": {"length": {"needs": "correctness", "at_least": 1}},
    "lagrangian": {"at_least": {"length": 0.6}},
    **{method: {} for method in ("product", "sa_mrpo", "saw", "ctwa", "gd2po", "dvao")},
}
WITH = {"drw": "previous", "mgda": "averaged", "upgrad": "unbiased", "pcgrad": "previous", "nash_mtl": "averaged"}
#: At most: of a step's time.
GOAL = 1.01


def trainers(bench: Bench) -> dict[str, Any]:
    """A trainer of each method, and two of the weighted sum, ready for steps."""
    made = {"off": bench.trainer("off", FEW, FEW, 0), "on": bench.trainer("on", FEW, FEW, 1)}
    for method in (*WITHOUT, *WITH):
        trainer = made[method] = bench.trainer(method, FEW, FEW, int(method in WITH))
        own = SimpleNamespace(method=method, parameters=WITHOUT.get(method, {}), gram=WITH.get(method), bounds=BOUNDS)
        trainer.combination = CombinationOfRun(load_method(method), own, trainer.weights)
    for trainer in made.values():
        trainer.create_optimizer_and_scheduler(1000)
    return made


def compare(turns: int) -> list[dict[str, float]]:
    """Seconds of each trainer's step, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder) / "demo"
        fetch(DemoModel(), demo / "model.json")
        bench = Bench(SIZE, demo, Path(folder))
        calls = {name: partial(generate_and_step, trainer, bench.rows) for name, trainer in trainers(bench).items()}
        for call in calls.values():
            call()  # what is made once
        return in_turns(calls, turns)


def table(result: dict[str, Any]) -> str:
    """Markdown of a result."""
    lines = ["| method | beside | ratio of a step | goal |", "| --- | --- | --- | --- |"]
    for row in result["methods"]:
        ratio = f"{row['median']:.3f} ({row['lowest']:.3f} to {row['highest']:.3f})"
        beside = "measuring" if row["gram"] else "not measuring"
        lines.append(f"| `{row['method']}`{', ' + row['gram'] if row['gram'] else ''} | {beside} | {ratio} | {GOAL} |")
    return "\n".join([*lines, "", f"{result['turns']} turns; load average {result['load']:.1f} at the end."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True, type=Path)
    parser.add_argument("--turns", type=int, default=15)
    args = parser.parse_args()
    measured = compare(args.turns)
    rows = []
    for method in (*WITHOUT, *WITH):
        ratios = [turn[method] / turn["on" if method in WITH else "off"] for turn in measured]
        numbers = {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
        rows.append({"method": method, "gram": WITH.get(method), **numbers})
    result = {"methods": rows, "turns": args.turns, "load": os.getloadavg()[0]}
    args.json.write_text(json.dumps(result, indent=2))
    print(table(result))


if __name__ == "__main__":
    main()
