"""The cost of being able to resume an interrupted run: rollouts on disk, and a checkpoint at every n-th step.

    python benchmarks/checkpoints.py --json FILE [--steps 60] [--every 20]

Trains one run of the demo's study and times the trainer's other work: writing rollouts, saving a checkpoint (its files,
their digests, and the wait until they are on the disk), and writing the record of the attempt. Shares are of the median
time of a step in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import yaml
from transformers import TrainerCallback

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.models.fetch import fetch
from reward_ablation.spec.run import RunSpec
from reward_ablation.study.resolve import resolve
from reward_ablation.training.around.attempts import EVERY_SECONDS, Attempt
from reward_ablation.training.around.job import TrainingJob
from reward_ablation.training.around.parts import STEPS_PER_PART, PartWriter
from reward_ablation.training.around.run import train_run
from reward_ablation.training.around.saving_trainer import SavingTrainer
from reward_ablation.training.core.trainer import AblationTrainer

ROOT = Path(__file__).parents[1]
GOAL = 0.02


class Steps(TrainerCallback):
    """Seconds from the end of one step to the end of the next."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_begin(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def timed(owner: type, method: str, seconds: dict[str, list[float]]) -> None:
    """Record the seconds of each call of a method."""
    original: Callable = getattr(owner, method)

    def measure(*arguments: Any, **keywords: Any) -> Any:
        start = time.perf_counter()
        try:
            return original(*arguments, **keywords)
        finally:
            seconds[method].append(time.perf_counter() - start)

    setattr(owner, method, measure)


def measure(steps: int, every: int, folder: Path) -> dict[str, Any]:
    """Train the demo's first run and time its parts."""
    config = yaml.safe_load((ROOT / "config" / "demo.yaml").read_text())
    config["training"] |= {"max_steps": steps, "save_steps": every}
    study = resolve(config, "demo.yaml", ROOT)
    model, problems = folder / "model" / "model.json", folder / "train.parquet"
    fetch(study.config.model, model)
    prepare(PrepareSpec.model_validate_json(study.train_data_spec), "train", problems)
    seconds: dict[str, list[float]] = defaultdict(list)
    timed(AblationTrainer, "_log_rollouts", seconds)
    timed(SavingTrainer, "_save_checkpoint", seconds)
    timed(PartWriter, "flush", seconds)
    timed(Attempt, "write", seconds)
    of_steps = Steps()
    run = next(iter(study.runs.values()))
    job = TrainingJob(RunSpec.parse(run.spec), run.code, model.parent, problems, folder / "run" / "seed0")
    train_run(job, [of_steps])
    saved = len(seconds["_save_checkpoint"])
    spans = [end - start for start, end in zip(of_steps.ends, of_steps.ends[1:], strict=False)]
    step = statistics.median(spans)
    shares = {
        "rollouts": sum(seconds["_log_rollouts"] + seconds["flush"]) / steps / step,
        "record": sum(seconds["write"]) / steps / step,
        "checkpoint": sum(seconds["_save_checkpoint"]) / saved / every / step,
    }
    return {
        "steps": steps,
        "every": every,
        "shares": shares,
        "all": sum(shares.values()),
        "one_checkpoint": statistics.median(seconds["_save_checkpoint"]) / step,
    }


def table(result: dict[str, Any]) -> str:
    """The table as Markdown."""
    shares = result["shares"]
    return "\n".join(
        [
            "| | share of a step |",
            "| --- | --- |",
            f"| rollouts and gradient tables, written every {STEPS_PER_PART} steps | {shares['rollouts']:.2%} |",
            f"| record of the attempt, written every {EVERY_SECONDS:.0f} s | {shares['record']:.2%} |",
            f"| checkpoint, every {result['every']} steps | {shares['checkpoint']:.2%} |",
            f"| sum | {result['all']:.2%} |",
            "",
            f"{result['steps']} steps. One checkpoint takes {result['one_checkpoint']:.0%} of a step. "
            f"Goal: a sum below {GOAL:.0%}.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints; the demo's own number")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments.steps, arguments.every, Path(folder))
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result), file=sys.stderr)


if __name__ == "__main__":
    main()
