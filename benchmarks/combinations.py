"""The cost of a method of combination in a training step, compared with TRL's weighted sum.

    python benchmarks/combinations.py --json FILE [--turns 15]

The demo's model, components and 64 completions a step, generation included. The time of a step varies on a shared
machine by more than a method costs. Therefore each step's CPU time is split: the ratio is that of the whole step to the
step without the method's own work. This work is to combine the scores, to log the weights, to store the measured
gradients and, for `same_step`, to measure before the advantages are decided. Only steps of gradient methods measure the
components' gradients. One process with one thread; the median over turns, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "workers"))

from gradient_steps import FEW, Bench, Size, generate_and_step

from reward_ablation.combination.load import load_method
from reward_ablation.combination.of_run import CombinationOfRun
from reward_ablation.config.sections.model import DemoModel
from reward_ablation.models.fetch import fetch

SIZE = Size("demo", 64, 0, 48, 0, ())
BOUNDS = {"correctness": (0, 1), "format": (0, 1), "length": (0, 1)}
#: Parameters of methods without gradients, and the kind of Gram matrix of methods with gradients.
WITHOUT: dict[str, dict[str, Any]] = {
    "schedule": {"format": {"0": 1, "100": 0}},
    "gate": {"length": {"needs": "correctness", "at_least": 1}},
    "lagrangian": {"at_least": {"length": 0.6}},
    **{method: {} for method in ("product", "sa_mrpo", "saw", "ctwa", "gd2po", "dvao")},
}
WITH = {
    **{"drw": "previous", "mgda": "averaged", "upgrad": "unbiased", "pcgrad": "previous", "nash_mtl": "averaged"},
    "cagrad": "same_step",
}
#: Largest allowed ratio.
GOAL = 1.01


class Clock:
    """CPU seconds that calls take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, with its CPU time added to `seconds`."""

        def wrapped(*arguments: Any) -> Any:
            begin = time.process_time()
            try:
                return call(*arguments)
            finally:
                self.seconds += time.process_time() - begin

        return wrapped


def trainer_of(bench: Bench, method: str) -> tuple[Any, Clock]:
    """A trainer with a method of combination, ready for steps, and the clock of the method's own work."""
    trainer, clock = bench.trainer(method, FEW, FEW, int(method in WITH)), Clock()
    own = SimpleNamespace(method=method, parameters=WITHOUT.get(method, {}), gram=WITH.get(method), bounds=BOUNDS)
    trainer.combination = CombinationOfRun(load_method(method), own, trainer.weights)
    for place, name in ((trainer, "_combined"), (trainer, "_measure_ahead"), (trainer.combination, "see")):
        setattr(place, name, clock.timed(getattr(place, name)))
    trainer.create_optimizer_and_scheduler(1000)
    return trainer, clock


def compare(turns: int) -> dict[str, list[float]]:
    """Ratios of the whole step to the step without the method's own work, by method, one per turn."""
    ratios: dict[str, list[float]] = {method: [] for method in (*WITHOUT, *WITH)}
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder) / "demo"
        fetch(DemoModel(), demo / "model.json")
        bench = Bench(SIZE, demo, Path(folder))
        made = {method: trainer_of(bench, method) for method in ratios}
        for turn in range(turns + 1):
            for method, (trainer, clock) in made.items():
                begin, clock.seconds = time.process_time(), 0.0
                generate_and_step(trainer, bench.rows)
                step = time.process_time() - begin
                if turn:  # the first turn includes work that is done once
                    ratios[method].append(step / (step - clock.seconds))
    return ratios


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = ["| method | gradients in the step | ratio of CPU time | goal |", "| --- | --- | --- | --- |"]
    for row in result["methods"]:
        ratio = f"{row['median']:.3f} ({row['lowest']:.3f} to {row['highest']:.3f})"
        step = "measured" if row["gram"] else "not measured"
        goal = "" if row["gram"] == "same_step" else GOAL
        lines.append(f"| `{row['method']}`{', ' + row['gram'] if row['gram'] else ''} | {step} | {ratio} | {goal} |")
    return "\n".join([*lines, "", f"{result['turns']} turns; load average {result['load']:.1f} at the end."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True, type=Path)
    parser.add_argument("--turns", type=int, default=15)
    args = parser.parse_args()
    rows = []
    for method, ratios in compare(args.turns).items():
        numbers = {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
        rows.append({"method": method, "gram": WITH.get(method), **numbers})
    result = {"methods": rows, "turns": args.turns, "load": os.getloadavg()[0]}
    args.json.write_text(json.dumps(result, indent=2))
    print(table(result))


if __name__ == "__main__":
    main()
